//! The constructs that [`Constructs::All`](super::Constructs) adds: 64-bit numbers, quotients by specialization
//! constants, volatile loads, atomics, extended instructions that write, constants selected by an invocation's number,
//! values that subgroups reduce and a workgroup combines, and layouts of tensors.

use super::Gen;

impl Gen<'_> {
    /// The import and the name of an extended instruction: of GLSL.std.450, or for kernels of OpenCL.std.
    fn extended(&self, shader: &str, kernel: &str) -> String {
        format!("%ext {}", if self.kernel { kernel } else { shader })
    }

    pub(super) fn wide_leaf(&mut self) -> String {
        match self.e.below(8) {
            0 | 1 => self.op("OpLoad %uint %subgroup_size"),
            2 => "%warp".into(),
            3 => {
                let v = self.op("OpLoad %v3uint %global_id");
                let i = self.e.below(3);
                self.op(&format!("OpCompositeExtract %uint {v} {i}"))
            }
            4 => {
                let v = self.op("OpLoad %v3uint %num_workgroups");
                let i = self.e.below(3);
                self.op(&format!("OpCompositeExtract %uint {v} {i}"))
            }
            5 => {
                let n = self.e.pick(&["%c6", "%c31", "%c128", "%c200"]);
                n.into()
            }
            _ if self.has_arguments() => self.volatile(),
            _ => "%warp".into(),
        }
    }

    /// A number that somebody else may write meanwhile.
    fn volatile(&mut self) -> String {
        let index = self.e.pick(&["%c0", "%c1", "%c3"]);
        let buffer = self.e.pick(&["in", "in", "out"]);
        let p = self.element("uint", buffer, index);
        let access = if self.kernel { "Volatile" } else { "Volatile|NonPrivatePointer" };
        self.op(&format!("OpLoad %uint {p} {access}"))
    }

    pub(super) fn wide_number(&mut self, terms: u32) -> String {
        match self.e.below(12) {
            0..=2 => {
                let (a, op) = (self.number(terms - 1), self.e.pick(&["OpUDiv", "OpUDiv", "OpUMod"]));
                let by = self.e.pick(&["%warp", "%size"]);
                let by = if by == "%size" { self.op("OpLoad %uint %subgroup_size") } else { by.into() };
                self.op(&format!("{op} %uint {a} {by}"))
            }
            3 | 4 => self.long(terms),
            5 | 6 => {
                let (a, b) = (self.number(terms - 1), self.leaf());
                self.combine(Combine::MAX, (&a, &b))
            }
            7 => {
                let n = self.number(terms - 1);
                let odd = self.op(&format!("OpBitwiseAnd %uint {n} %c1"));
                let odd = self.op(&format!("OpINotEqual %bool {odd} %c0"));
                let (a, b) = (self.constant(), self.constant());
                self.op(&format!("OpSelect %uint {odd} {a} {b}"))
            }
            8 => {
                let n = self.number(terms - 1);
                let index = self.op(&format!("OpBitwiseAnd %uint {n} %c3"));
                let p = self.op(&format!("OpAccessChain %ptr_f_uint {} {index}", self.table));
                self.op(&format!("OpLoad %uint {p}"))
            }
            9 => self.split(terms),
            10 => {
                let a = self.number(terms - 1);
                let c = self.e.pick(&[Combine::MIN, Combine::OR, Combine::AND, Combine::XOR]);
                let operation = self.e.pick(&["Reduce", "Reduce", "InclusiveScan", "ExclusiveScan"]);
                self.op(&format!("OpGroupNonUniform{} %uint %c3 {operation} {a}", c.group))
            }
            _ => self.atomic(),
        }
    }

    fn constant(&mut self) -> String {
        self.e.pick(&["%c0", "%c16", "%c32", "%c1", "%c8"]).into()
    }

    /// A number of 64 bits, computed with and cut off again.
    fn long(&mut self, terms: u32) -> String {
        let a = self.number(terms - 1);
        let a = self.op(&format!("OpUConvert %ulong {a}"));
        let by = self.e.pick(&["%long32", "%long8", "%long2", "%long3"]);
        let op = self.e.pick(&["OpUDiv", "OpUMod", "OpIAdd", "OpISub", "OpIMul", "OpBitwiseAnd"]);
        let mut n = self.op(&format!("{op} %ulong {a} {by}"));
        if self.e.chance(90) {
            let shift = self.e.pick(&["OpUDiv", "OpShiftRightLogical"]);
            n = self.op(&format!("{shift} %ulong {n} %long2"));
        }
        self.op(&format!("OpUConvert %uint {n}"))
    }

    /// Emits an extended instruction with a second result, in a variable of the invocation or in a struct.
    fn split(&mut self, terms: u32) -> String {
        let n = self.number(terms - 1);
        let n = self.op(&format!("OpBitwiseAnd %uint {n} %c255"));
        let f = self.op(&format!("OpConvertUToF %float {n}"));
        if self.e.chance(100) {
            let to = self.variable();
            let call = self.extended("Frexp", "frexp");
            self.op(&format!("OpExtInst %float {call} {f} {to}"));
            return self.op(&format!("OpLoad %uint {to}"));
        }
        if self.kernel && self.e.chance(100) {
            let r = self.op(&format!("OpExtInst %float %ext remainder {f} %one"));
            return self.op(&format!("OpConvertFToU %uint {r}"));
        }
        let call = self.extended("Modf", "modf");
        self.op(&format!("OpExtInst %float {call} {f} {}", self.part));
        let whole = self.op(&format!("OpLoad %float {}", self.part));
        self.op(&format!("OpConvertFToU %uint {whole}"))
    }

    fn atomic(&mut self) -> String {
        let index = self.e.pick(&["%c0", "%c1", "%c2"]);
        let p = if self.has_arguments() && self.e.chance(128) {
            self.element("uint", "out", index)
        } else {
            self.op(&format!("OpAccessChain %ptr_s_uint %shared {index}"))
        };
        if self.e.chance(90) {
            return self.op(&format!("OpAtomicLoad %uint {p} %c2 %c0"));
        }
        let n = self.e.pick(&["%c0", "%c1"]);
        self.op(&format!("OpAtomicIAdd %uint {p} %c2 %c0 {n}"))
    }

    /// A factor of a matrix, or the value of its elements: one of two constants.
    pub(super) fn wide_float(&mut self) -> String {
        let condition = if self.e.chance(128) {
            let lane = self.op("OpLoad %uint %lane");
            let odd = self.op(&format!("OpBitwiseAnd %uint {lane} %c1"));
            self.op(&format!("OpINotEqual %bool {odd} %c0"))
        } else {
            self.comparison()
        };
        let (a, b) = (self.e.pick(&["%one", "%two"]), self.e.pick(&["%two", "%zero", "%one"]));
        self.op(&format!("OpSelect %float {condition} {a} {b}"))
    }

    pub(super) fn wide_statement(&mut self) {
        match self.e.below(8) {
            0..=2 => self.reduced(),
            3 | 4 if !self.kernel => self.tensor(),
            3..=5 => self.write(),
            _ => {
                let value = self.wide_number(2);
                let to = self.variable();
                self.put(&format!("OpStore {to} {value}"));
            }
        }
    }

    /// An extended instruction that writes memory of others.
    fn write(&mut self) {
        let n = self.number(2);
        let n = self.op(&format!("OpBitwiseAnd %uint {n} %c255"));
        let f = self.op(&format!("OpConvertUToF %float {n}"));
        let index = self.number(1);
        let index = self.op(&format!("OpBitwiseAnd %uint {index} %c63"));
        let p = if self.has_arguments() && self.e.chance(170) {
            self.element("uint", "out", &index)
        } else {
            self.op(&format!("OpAccessChain %ptr_s_uint %shared {index}"))
        };
        if !self.kernel {
            self.op(&format!("OpExtInst %float %ext Frexp {f} {p}"));
            return;
        }
        match self.e.below(3) {
            0 => self.op(&format!("OpExtInst %float %ext frexp {f} {p}")),
            1 => self.op(&format!("OpExtInst %float %ext remquo {f} %two {p}")),
            _ => {
                let pair = self.op(&format!("OpCompositeConstruct %v2uint {n} {n}"));
                self.op(&format!("OpExtInst %void %ext vstoren {pair} %long0 {p}"))
            }
        };
    }

    fn combine(&mut self, how: Combine, (a, b): (&str, &str)) -> String {
        match how.core {
            Some(op) => self.op(&format!("{op} %uint {a} {b}")),
            None => {
                let call = self.extended(how.shader, how.kernel);
                self.op(&format!("OpExtInst %uint {call} {a} {b}"))
            }
        }
    }

    /// A value that each subgroup reduces, one of its invocations stores into shared memory, and all combine with theirs:
    /// as it has to be, or nearly so.
    fn reduced(&mut self) {
        let x = self.number(2);
        let how = self.e.pick(&[Combine::MAX, Combine::MAX, Combine::MIN, Combine::OR, Combine::AND]);
        let other = self.e.pick(&[Combine::MIN, Combine::MAX, Combine::OR, Combine::XOR]);
        let predicate = self.e.chance(90) && matches!(how.group, "UMax" | "UMin");
        let limit = self.e.pick(&["%c4", "%c16", "%c63"]);
        let compare = if how.group == "UMax" { "OpULessThanEqual" } else { "OpUGreaterThanEqual" };
        let combined = if self.e.chance(30) { other } else { how };
        let (stored, begin) = if predicate {
            let fits = self.op(&format!("{compare} %bool {x} {limit}"));
            let vote = self.e.pick(&["All", "All", "All", "Any"]);
            let all = self.op(&format!("OpGroupNonUniform{vote} %bool %c3 {fits}"));
            let (good, bad) = if how.group == "UMax" { (limit, "%c255") } else { ("%c64", "%c0") };
            let good = if self.e.chance(30) { "%c15" } else { good };
            (self.op(&format!("OpSelect %uint {all} {good} {bad}")), x)
        } else {
            let reduced = if self.e.chance(30) { other } else { how };
            let operation = if self.e.chance(20) { "InclusiveScan" } else { "Reduce" };
            let r = self.op(&format!("OpGroupNonUniform{} %uint %c3 {operation} {x}", reduced.group));
            let begin = if self.e.chance(60) { r.clone() } else { x };
            (r, begin)
        };
        self.barrier(200);
        self.deposit(&stored);
        self.barrier(230);
        let mut sum = begin;
        match self.e.below(5) {
            0 => {
                let index = self.slot();
                let read = self.shared_word(&index);
                sum = self.combine(combined, (&sum, &read));
            }
            1 => {
                for n in ["%c0", "%c1", "%c2"] {
                    let read = self.shared_word(n);
                    sum = self.combine(combined, (&sum, &read));
                }
            }
            _ => sum = self.combine_all(combined, sum),
        }
        if predicate {
            let fits = self.op(&format!("{compare} %bool {sum} {limit}"));
            sum = self.op(&format!("OpSelect %uint {fits} %c1 %c0"));
        }
        let to = self.variable();
        self.put(&format!("OpStore {to} {sum}"));
        self.barrier(128);
    }

    fn barrier(&mut self, of_256: u32) {
        if self.e.chance(of_256) {
            self.put("OpControlBarrier %c2 %c2 %c264");
        }
    }

    /// A place for what a subgroup has.
    fn slot(&mut self) -> String {
        let own = self.op("OpLoad %uint %subgroup");
        match self.e.below(5) {
            0..=2 => own,
            3 => "%c0".into(),
            _ => self.op(&format!("OpIAdd %uint {own} %c1")),
        }
    }

    fn shared_word(&mut self, index: &str) -> String {
        let p = self.op(&format!("OpAccessChain %ptr_s_uint %shared {index}"));
        self.op(&format!("OpLoad %uint {p}{}", self.shared_access()))
    }

    /// Has some invocations store a value.
    fn deposit(&mut self, value: &str) {
        let slot = self.slot();
        let p = self.op(&format!("OpAccessChain %ptr_s_uint %shared {slot}"));
        let condition = match self.e.below(7) {
            0..=2 => {
                let lane = self.op("OpLoad %uint %lane");
                self.op(&format!("OpIEqual %bool {lane} %c0"))
            }
            3 | 4 => self.op("OpGroupNonUniformElect %bool %c3"),
            5 => {
                let index = self.op("OpLoad %uint %local_index");
                self.op(&format!("OpIEqual %bool {index} %c0"))
            }
            _ => self.comparison(),
        };
        let (yes, merge) = (self.id("yes"), self.id("merge"));
        self.merge(&merge);
        self.put(&format!("OpBranchConditional {condition} {yes} {merge}"));
        self.start(&yes);
        self.put(&format!("OpStore {p} {value}{}", self.shared_access()));
        self.branch(&merge);
        self.start(&merge);
    }

    /// A loop over what was stored.
    fn combine_all(&mut self, how: Combine, begin: String) -> String {
        let first = if self.e.chance(20) { "%c1" } else { "%c0" };
        let bound = match self.e.below(6) {
            0 => "%c2".into(),
            1 => "%c4".into(),
            _ => self.op("OpLoad %uint %subgroups"),
        };
        let [header, body, next, merge] = std::array::from_fn(|_| self.id("r"));
        let [count, more, sum, new] = std::array::from_fn(|_| self.id("s"));
        let before = self.label.clone();
        self.branch(&header);
        self.start(&header);
        self.put(&format!("{count} = OpPhi %uint {first} {before} {more} {next}"));
        self.put(&format!("{sum} = OpPhi %uint {begin} {before} {new} {next}"));
        let fewer = self.op(&format!("OpULessThan %bool {count} {bound}"));
        if !self.kernel {
            self.put(&format!("OpLoopMerge {merge} {next} None"));
        }
        self.put(&format!("OpBranchConditional {fewer} {body} {merge}"));
        self.start(&body);
        let read = self.shared_word(&count);
        let combined = self.combine(how, (&sum, &read));
        self.branch(&next);
        self.start(&next);
        self.put(&format!("{new} = OpCopyObject %uint {combined}"));
        self.put(&format!("{more} = OpIAdd %uint {count} %c1"));
        self.branch(&header);
        self.start(&merge);
        sum
    }

    /// A small number that is not 0.
    fn extent(&mut self) -> String {
        if self.e.chance(140) {
            return self.e.pick(&["%c16", "%c32"]).into();
        }
        let n = self.number(1);
        let n = self.op(&format!("OpBitwiseAnd %uint {n} %c15"));
        self.op(&format!("OpIAdd %uint {n} %c16"))
    }

    fn offset(&mut self) -> String {
        if self.e.chance(140) {
            return "%c0".into();
        }
        let n = self.number(1);
        self.op(&format!("OpBitwiseAnd %uint {n} %c7"))
    }

    /// A load by way of a layout.
    fn tensor(&mut self) {
        let mut layout = self.op("OpCreateTensorLayoutNV %layout");
        for _ in 0..1 + self.e.below(4) {
            let arguments = match self.e.below(4) {
                0 => format!("OpTensorLayoutSetStrideNV %layout {layout} {} {}", self.extent(), self.extent()),
                1 => format!("OpTensorLayoutSetClampValueNV %layout {layout} {}", self.offset()),
                2 => format!("OpTensorLayoutSliceNV %layout {layout} {} %c16 {} %c16", self.offset(), self.offset()),
                _ => format!("OpTensorLayoutSetDimensionNV %layout {layout} {} {}", self.extent(), self.extent()),
            };
            layout = self.op(&arguments);
        }
        if self.e.chance(100) {
            let (rows, columns) = (self.extent(), self.extent());
            layout = self.op(&format!("OpTensorLayoutSetDimensionNV %layout {layout} {rows} {columns}"));
        }
        // The matrix must not be larger than the spans.
        let (row, column) = (self.offset(), self.offset());
        layout = self.op(&format!("OpTensorLayoutSliceNV %layout {layout} {row} %c16 {column} %c16"));
        let at = self.element("float", "floats", "%c0");
        let ty = if self.e.chance(60) { "wmat" } else { "mat" };
        let m = self.op(&format!("OpCooperativeMatrixLoadTensorNV %{ty} {at} %{ty}_one {layout} None None"));
        self.keep(&m, ty);
    }
}

/// An operation by which values are combined.
#[derive(Clone, Copy)]
struct Combine {
    /// The group operation of the reduction.
    group: &'static str,
    /// The instruction, if it is none of an extended set.
    core: Option<&'static str>,
    shader: &'static str,
    kernel: &'static str,
}

impl Combine {
    const MAX: Combine = Combine { group: "UMax", core: None, shader: "UMax", kernel: "u_max" };
    const MIN: Combine = Combine { group: "UMin", core: None, shader: "UMin", kernel: "u_min" };
    const OR: Combine = Combine { group: "BitwiseOr", core: Some("OpBitwiseOr"), shader: "", kernel: "" };
    const AND: Combine = Combine { group: "BitwiseAnd", core: Some("OpBitwiseAnd"), shader: "", kernel: "" };
    const XOR: Combine = Combine { group: "BitwiseXor", core: Some("OpBitwiseXor"), shader: "", kernel: "" };
}
