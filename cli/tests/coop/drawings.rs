//! Drawings: where elements are, and who executes what.

use super::*;

/// Where elements are in rows of SVG: the fills of cells, by row, from the titles that name their places.
fn cells(svg: &str) -> Vec<String> {
    let titles = svg.split("<title>").skip(1).filter_map(|rest| rest.split("</title>").next());
    titles.map(str::to_owned).collect()
}

/// The interpreter's placement is known: consecutive elements, row by row. Every element is held where the module says.
#[test]
fn placements_are_those_of_who_runs() {
    let folder = folder("placement");
    let svg = folder.join("placement.svg");
    let svg_name = svg.to_string_lossy().into_owned();
    let on = ["--on", "interp", "--subgroup-size", "8"];
    for (matrix, place) in
        [("f16:8x16:A", "blocked-rows"), ("s8:8x16:B", "blocked-rows"), ("f32:16x8:C", "interleaved")]
    {
        let arguments = ["run", "placement", "--matrix", matrix, "--placement", place, "--json"];
        let out = coop(&[&arguments[..], &on].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let elements = json["elements"].as_array().expect("rows");
        for (row, line) in elements.iter().enumerate() {
            let line = line.as_array().expect("a row");
            for (column, holders) in line.iter().enumerate() {
                let number = row * line.len() + column;
                let wanted = match place {
                    // 16 consecutive ones in each of 8 invocations.
                    "blocked-rows" => [number / 16, number % 16],
                    _ => [number % 8, number / 8],
                };
                assert_eq!(*holders, serde_json::json!([wanted]), "{matrix}, {place}: {row}, {column}");
            }
        }
    }
    // Every element in two invocations is said so, and drawn.
    let arguments = ["run", "placement", "--matrix", "f16:8x8:A", "--placement", "replicated", "--svg", &svg_name];
    let out = coop(&[&arguments[..], &on].concat());
    assert_eq!((status(&out), stdout(&out).as_str()), (0, ""), "{}", stderr(&out));
    let drawn = std::fs::read_to_string(&svg).expect("it was written");
    let cells = cells(&drawn);
    assert_eq!(cells.len(), 64, "{drawn}");
    assert!(cells[9].starts_with("row 1, column 1: invocation ") && cells[9].matches("invocation").count() == 2);
    assert!(drawn.contains("invocation.index: the invocation") && drawn.contains(">f16 8x8 A</text>"));
    // Lowered: the lanes of a subgroup hold each element once, whoever executes the code. The four tiles of 8x8
    // take turns.
    for lower in [&["scalar"][..], &["khr", "--profile", "mesa-lavapipe"]] {
        let arguments = ["run", "placement", "--matrix", "f32:16x16:Accumulator", "--json", "--lower"];
        let out = coop(&[&arguments[..], lower, &on].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!((&json["lengths"], &json["invocations"]), (&serde_json::json!([32, 32]), &serde_json::json!(8)));
        let held = json["elements"].as_array().expect("rows").iter().flat_map(|line| line.as_array().expect("a row"));
        let once = |holders: &serde_json::Value| holders.as_array().is_some_and(|h| h.len() == 1);
        assert!(held.clone().count() == 256 && held.into_iter().all(once), "{json}");
        if lower[0] == "khr" {
            let index = |row: usize, column: usize| json["elements"][row][column][0][1].as_u64();
            assert_eq!([index(0, 0), index(0, 8), index(8, 0), index(8, 8)], [0, 1, 2, 3].map(Some), "{json}");
        }
    }
    let out = coop(&[&["run", "placement", "--matrix", "f32:16x16:C", "--lower", "khr"], &on[..]].concat());
    assert!(status(&out) == 2 && stderr(&out).contains("say --profile NAME"), "{}", stderr(&out));
    // The types of a module.
    let spec = ["--spec", "0=8", "--spec", "1=16", "--spec", "2=8"];
    let out = coop(&[&["run", "placement", GEMM], &spec[..], &on].concat());
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    let text = stdout(&out);
    for name in ["f16 8x8 A: 8 invocations", "f16 8x16 B: 8 invocations", "f32 8x16 Accumulator: 8 invocations"] {
        assert!(text.contains(name), "{text}");
    }
    for (matrix, message) in [
        ("f16:16:A", "'16' is not a size"),
        ("x16:16x16:A", "there is no component type 'x16'"),
        ("f16:16x16:D", "the use is A, B or Accumulator"),
        ("s8:129x4:A", "129x4: s8 has numbers for 128 rows and columns"),
        ("f16:4096x4096:A", "is not a size of 1 to 16384 elements"),
    ] {
        let out = coop(&["run", "placement", "--matrix", matrix]);
        assert!(status(&out) == 2 && stderr(&out).contains(message), "{matrix}: {}", stderr(&out));
    }
}

/// A device and what is lowered for it are asked the same.
#[test]
fn a_device_says_where_elements_are() {
    if std::env::var_os("COOP_REQUIRE_VULKAN").is_none() && std::env::var_os("COOP_RUNNER").is_none() {
        eprintln!("no driver");
        return;
    }
    for lower in [&[][..], &["--lower", "scalar"]] {
        let arguments = ["run", "placement", "--matrix", "f16:8x8:A", "--matrix", "f32:8x8:C", "--json"];
        let out = coop(&[&arguments[..], lower].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        assert_eq!(stdout(&out).lines().count(), 2);
        for line in stdout(&out).lines() {
            let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let rows = json["elements"].as_array().expect("rows");
            assert!(
                rows.iter()
                    .flat_map(|row| row.as_array().expect("a row"))
                    .all(|h| !h.as_array().expect("holders").is_empty())
            );
        }
    }
}

/// Divergent blocks have their color in both formats, with the lines of source.
#[test]
fn the_graph_shows_who_executes_what() {
    let folder = folder("graph");
    if spirv_tool("glslang").is_none() {
        return;
    }
    let shader = "testdata/cli/divergent.comp";
    let draw = |name: &str, more: &[&str]| {
        let to = folder.join(name);
        let out = coop(&[&["check", "--no-config", "--graph", &to.to_string_lossy(), shader], more].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        std::fs::read_to_string(&to).expect("it was written")
    };
    let dot = draw("flow.dot", &[]);
    let block =
        |place: &str| dot.lines().find(|l| l.contains(place) && l.contains("fillcolor")).expect("a block").to_owned();
    // The loads inside of the branch on the invocation's index, and what comes after the loop.
    let inside = block("divergent.comp:27-29");
    assert!(inside.contains("#f7c6b5") && inside.contains("! %"), "{inside}");
    assert!(inside.contains("OpCooperativeMatrixMulAddKHR"), "{inside}");
    let after = block("divergent.comp:32-33");
    assert!(after.contains("#cdebc8") && after.contains("OpCooperativeMatrixStoreKHR"), "{after}");
    let branch = block("divergent.comp:19-26");
    assert!(branch.contains("[invocation]"), "{branch}");
    assert_eq!(dot.matches("style=dashed").count(), 1, "one loop: {dot}");
    let svg = draw("flow.svg", &["--subgroup-size", "32"]);
    assert_eq!(svg.matches("executed together by each invocation").count(), 1, "{svg}");
    assert!(svg.contains("divergent.comp:27-29") && svg.contains("Subgroups are of 32 invocations"), "{svg}");
    assert!(svg.ends_with("</svg>\n"));
    for (arguments, message) in [
        (&["--graph", "x.svg", GEMM, MISMATCH][..], "--graph draws one file, not 2"),
        (&["--graph", "x.svg", "--entry", "none", GEMM], "the module has no entry point 'none', only 'main'"),
        (&["--graph", "x.svg", "-"], "--graph reads its file twice"),
    ] {
        let out = coop(&[&["check", "--no-config"], arguments].concat());
        assert!(status(&out) == 2 && stderr(&out).contains(message), "{arguments:?}: {}", stderr(&out));
    }
}
