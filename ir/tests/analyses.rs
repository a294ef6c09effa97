//! Users, decorations, entry points and calls: against what spirv-dis shows of our kernels, and against the plainest
//! possible search on every module at hand.

use coop_ir::constant::{Const, Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{CallGraph, CallKind, Extent, SizeSource, entry_points};
use coop_ir::spv::{BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel};
use coop_ir::uses::Users;
use coop_ir::{Block, Function, Header, Id, Inst, InstRef, Module, Op, Operand, binary, string_operands};
use std::path::Path;

mod common;

fn kernel(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels").join(name);
    binary::read(&std::fs::read(&path).expect("readable")).expect("a module")
}

fn id(n: u32) -> Id {
    Id::new(n).expect("not 0")
}

fn named(m: &Module, d: &Decorations, name: &str) -> Id {
    d.ids().find(|i| d.name(m, *i).as_deref() == Some(name)).unwrap_or_else(|| panic!("nothing is named {name}"))
}

fn empty() -> Module {
    Module::new(Header { version: 0x10600, generator: 0, bound: 100, schema: 0, big_endian: false }, 100)
}

fn global(m: &mut Module, op: Op, result: Option<u32>, operands: impl IntoIterator<Item = Operand>) -> InstRef {
    let r = m.add(Inst::new(op, None, result.map(id), operands));
    m.globals.push(r);
    r
}

#[test]
fn users_of_every_id_of_every_module() {
    for path in common::all_modules().into_iter().step_by(7) {
        let m = binary::read(&std::fs::read(&path).expect("readable")).expect("a module");
        let users = Users::new(&m);
        let mut expected = vec![Vec::new(); m.header.bound as usize];
        for r in m.all() {
            let inst = m.inst(r);
            for used in inst.ty.into_iter().chain(inst.ids()) {
                let list: &mut Vec<InstRef> = &mut expected[used.get() as usize];
                if list.last() != Some(&r) {
                    list.push(r);
                }
            }
            if inst.opaque {
                for w in inst.operands.iter().filter(|o| o.id().is_none()).map(|o| o.word()) {
                    let defined = Id::new(w).is_some_and(|i| m.def(i).is_some());
                    if defined && expected[w as usize].last() != Some(&r) {
                        expected[w as usize].push(r);
                    }
                }
            }
        }
        for n in 1..m.header.bound {
            assert_eq!(users.of(id(n)), expected[n as usize], "{}: users of %{n}", path.display());
            assert_eq!(users.is_used(id(n)), !expected[n as usize].is_empty());
        }
        assert!(!users.is_stale(&m));
    }
}

#[test]
fn words_of_opaque_instructions_are_possible_uses() {
    let mut m = empty();
    global(&mut m, Op::Name, None, [Operand::Id(id(1))].into_iter().chain(string_operands("v")));
    global(&mut m, Op::TypeVoid, Some(1), []);
    let odd = m.add(Inst { opaque: true, ..Inst::new(Op(9999), None, None, [1, 1, 50].map(Operand::Word)) });
    m.globals.push(odd);
    let plain = global(&mut m, Op(9999), None, [1].map(Operand::Word));
    let users = Users::new(&m);
    assert_eq!(users.of(id(1)).len(), 2, "the name and the opaque one, not {plain:?}");
    assert_eq!(users.beyond_notes(&m, id(1)).collect::<Vec<_>>(), [odd]);
    assert!(!users.is_used(id(50)), "an id that nothing defines");
    m.inst_mut(plain);
    assert!(users.is_stale(&m));
}

#[test]
fn decorations_of_a_kernel() {
    let m = kernel("gemm_tutorial.spv");
    let d = Decorations::new(&m);
    for (i, name) in
        ["CM_M", "CM_N", "CM_K", "subgroup_size", "TILE_M", "TILE_N", "TILE_K", "numKTiles"].iter().enumerate()
    {
        let constant = named(&m, &d, name);
        assert_eq!(d.spec_id(constant), Some(i as u32), "{name}");
        assert!(d.with_spec_id(i as u32).any(|c| c == constant));
    }
    let group = named(&m, &d, "gl_WorkGroupID");
    assert_eq!(d.built_in(group), Some(BuiltIn::WorkgroupId));
    assert_eq!(d.with_built_in(BuiltIn::WorkgroupId).collect::<Vec<_>>(), [group]);
    let push = named(&m, &d, "Push");
    assert!(d.has(push, Decoration::Block) && !d.has(push, Decoration::BufferBlock));
    assert_eq!(d.member_value(push, 2, Decoration::Offset), Some(8));
    assert_eq!(d.member_name(&m, push, 1).as_deref(), Some("N"));
    assert_eq!((d.member_name(&m, push, 3), d.member_value(push, 3, Decoration::Offset)), (None, None));
    let (a, c) = (named(&m, &d, "BufferA"), named(&m, &d, "BufferC"));
    assert!(d.member_has(a, 0, Decoration::NonWritable) && !d.member_has(c, 0, Decoration::NonWritable));
    assert_eq!(d.members(a).count(), 2);
    let bindings: Vec<_> = d.ids().filter_map(|v| Some((d.set(v)?, d.binding(v)?))).collect();
    assert_eq!(bindings, [(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn group_decorations_are_those_of_the_targets() {
    let mut m = empty();
    let deco = |m: &mut Module, target: u32, d: Decoration, params: &[u32]| {
        let params = params.iter().map(|w| Operand::Word(*w));
        global(m, Op::Decorate, None, [Operand::Id(id(target)), Operand::Word(d.0)].into_iter().chain(params))
    };
    deco(&mut m, 9, Decoration::Offset, &[16]);
    deco(&mut m, 1, Decoration::Binding, &[3]);
    let coherent = deco(&mut m, 9, Decoration::Coherent, &[]);
    global(&mut m, Op::DecorationGroup, Some(9), []);
    global(&mut m, Op::GroupDecorate, None, [9, 1, 2].map(|i| Operand::Id(id(i))));
    let member = [Operand::Id(id(9)), Operand::Id(id(5)), Operand::Word(1)];
    global(&mut m, Op::GroupMemberDecorate, None, member);
    let d = Decorations::new(&m);
    assert_eq!(
        d.of(id(1)).map(|x| x.decoration).collect::<Vec<_>>(),
        [Decoration::Binding, Decoration::Offset, Decoration::Coherent]
    );
    assert_eq!(d.of(id(2)).last().map(|x| x.inst), Some(coherent));
    assert_eq!((d.value(id(2), Decoration::Offset), d.value(id(2), Decoration::Coherent)), (Some(16), None));
    assert_eq!(
        (d.member_value(id(5), 1, Decoration::Offset), d.member_has(id(5), 0, Decoration::Offset)),
        (Some(16), false)
    );
    assert!(!d.has(id(5), Decoration::Coherent), "its member is, not the struct");
}

#[test]
fn an_entry_point_with_its_modes() {
    let m = kernel("functions.spv");
    let d = Decorations::new(&m);
    let entries = entry_points(&m, &d);
    let [main] = entries.as_slice() else { panic!("one entry point, not {}", entries.len()) };
    assert_eq!((main.name.as_str(), main.model), ("main", ExecutionModel::GLCompute));
    assert_eq!(main.interface.len(), 6);
    assert!(main.interface.iter().all(|v| m.def_inst(*v).is_some_and(|i| i.op == Op::Variable)));
    let size = main.workgroup_size.expect("LocalSizeId");
    assert_eq!(size.source, SizeSource::LocalSizeId);
    assert_eq!(main.mode(ExecutionMode::LocalSizeId).map(|x| x.at), Some(size.at));
    assert_eq!(main.mode(ExecutionMode::LocalSize), None);
    let Extent::Constant(x) = size.extents[0] else { panic!("an id") };
    assert_eq!(d.spec_id(x), Some(3));
    let [x, y, z] = size.values(&Constants::new(&m, &Specialization::new()));
    assert!(matches!(x, Const::Default { .. }), "{x}");
    assert_eq!([y, z], [Const::Fixed(1), Const::Fixed(1)]);
}

#[test]
fn literal_and_built_in_workgroup_sizes() {
    let mut m = empty();
    let entry = [Operand::Word(5), Operand::Id(id(4))]
        .into_iter()
        .chain(string_operands("a long name"))
        .chain([Operand::Id(id(8))]);
    global(&mut m, Op::EntryPoint, None, entry);
    let mode = [Operand::Id(id(4)), Operand::Word(17), Operand::Word(8), Operand::Word(4), Operand::Word(2)];
    global(&mut m, Op::ExecutionMode, None, mode);
    let entries = entry_points(&m, &Decorations::new(&m));
    assert_eq!((entries[0].name.as_str(), entries[0].interface.as_slice()), ("a long name", [id(8)].as_slice()));
    let size = entries[0].workgroup_size.expect("LocalSize");
    assert_eq!((size.source, size.extents), (SizeSource::LocalSize, [8, 4, 2].map(Extent::Literal)));

    let built_in = [Operand::Id(id(20)), Operand::Word(Decoration::BuiltIn.0), Operand::Word(BuiltIn::WorkgroupSize.0)];
    global(&mut m, Op::Decorate, None, built_in);
    global(&mut m, Op::SpecConstantComposite, Some(20), [21, 22, 23].map(|i| Operand::Id(id(i))));
    let size = entry_points(&m, &Decorations::new(&m))[0].workgroup_size.expect("the built-in");
    assert_eq!(size.source, SizeSource::BuiltIn);
    assert_eq!(size.extents, [21, 22, 23].map(|i| Extent::Constant(id(i))));
}

#[test]
fn calls_of_a_kernel() {
    let m = kernel("functions.spv");
    let d = Decorations::new(&m);
    let graph = CallGraph::new(&m);
    let name = |f: &usize| {
        let name = m.inst(m.functions[*f].def).result.and_then(|i| d.name(&m, i)).unwrap_or_default();
        name.split('(').next().unwrap_or_default().to_owned()
    };
    let main = graph.function(entry_points(&m, &d)[0].function).expect("it exists");
    let callees: Vec<_> = graph.callees(main).iter().map(name).collect();
    assert_eq!(callees, ["split", "loadA", "loadB", "accumulate", "finish"]);
    assert_eq!(graph.calls(main).len(), 7);
    assert!(graph.calls(main).iter().all(|c| c.kind == CallKind::Direct));
    let all: Vec<_> = graph.reachable([main]).iter().map(name).collect();
    assert_eq!(all, ["main", "loadA", "loadB", "accumulate", "relu", "finish", "split"]);
    let finish = all.iter().position(|n| n == "finish").expect("listed");
    assert_eq!(graph.reachable([finish]).iter().map(name).collect::<Vec<_>>(), ["relu", "finish"]);
    let relu = graph.callees(finish)[0];
    assert_eq!(graph.callers(relu), [finish]);
    assert!(graph.recursive().is_empty());
}

/// Functions 1, 2, ... with these bodies.
fn functions(bodies: Vec<Vec<Inst>>) -> Module {
    let mut m = empty();
    for (i, body) in bodies.into_iter().enumerate() {
        let function = [Operand::Word(0), Operand::Id(id(90))];
        let def = m.add(Inst::new(Op::Function, Some(id(91)), Some(id(i as u32 + 1)), function));
        let label = m.add(Inst::new(Op::Label, None, Some(id(i as u32 + 30)), []));
        let insts = body.into_iter().map(|inst| m.add(inst)).collect();
        let tail = vec![m.add(Inst::new(Op::FunctionEnd, None, None, []))];
        m.functions.push(Function {
            lead: vec![],
            def,
            params: vec![],
            blocks: vec![Block { lead: vec![], label, insts }],
            tail,
        });
    }
    m
}

#[test]
fn callbacks_count_as_calls_and_debug_information_does_not() {
    let inst = |op, operands: &[Operand]| Inst::new(op, Some(id(91)), Some(id(80)), operands.iter().copied());
    let ids = |ids: &[u32]| ids.iter().map(|i| Operand::Id(id(*i))).collect::<Vec<_>>();
    // Pointer, object, layout, memory access, addressing operands: DecodeFunc and DecodeVectorFunc.
    let mut load = ids(&[60, 61, 62]);
    load.extend([Operand::Word(0), Operand::Word(6), Operand::Id(id(2)), Operand::Id(id(3))]);
    let reduce = [Operand::Id(id(60)), Operand::Word(1), Operand::Id(id(4))];
    let m = functions(vec![
        vec![
            inst(Op::CooperativeMatrixLoadTensorNV, &load),
            inst(Op::CooperativeMatrixReduceNV, &reduce),
            inst(Op::CooperativeMatrixPerElementOpNV, &ids(&[60, 5, 61])),
            inst(Op::ExtInst, &ids(&[70, 1, 1])),
        ],
        vec![],
        vec![inst(Op::FunctionCall, &ids(&[7]))],
        vec![],
        vec![],
        vec![Inst { opaque: true, ..inst(Op(9999), &[Operand::Word(1), Operand::Word(6)]) }],
        vec![inst(Op::FunctionCall, &ids(&[3])), inst(Op::FunctionCall, &ids(&[8]))],
        vec![inst(Op::FunctionCall, &ids(&[8]))],
    ]);
    let graph = CallGraph::new(&m);
    assert_eq!(graph.callees(0), [1, 2, 3, 4]);
    assert!(graph.calls(0).iter().all(|c| c.kind == CallKind::Callback));
    assert_eq!(graph.reachable([0]), [0, 1, 2, 3, 4, 6, 7]);
    assert_eq!(graph.reachable([5]), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(graph.recursive(), [2, 6, 7], "not 5, whose call of itself is only possible");
}

/// The same for the modules in the cache: an entry point's function exists, and callbacks are found in modules with NV2
/// instructions.
#[test]
fn entry_points_of_every_module() {
    for path in common::all_modules() {
        let m = binary::read(&std::fs::read(&path).expect("readable")).expect("a module");
        let d = Decorations::new(&m);
        let graph = CallGraph::new(&m);
        let entries = entry_points(&m, &d);
        assert_eq!(entries.len(), m.globals_with(Op::EntryPoint).count(), "{}", path.display());
        for e in entries {
            let f = graph.function(e.function).unwrap_or_else(|| panic!("{}: no function", path.display()));
            let compute = e.model == ExecutionModel::GLCompute;
            assert!(!compute || e.workgroup_size.is_some(), "{}", path.display());
            let callback = |f: &usize| {
                let insts = m.functions[*f].insts();
                insts
                    .filter(|r| {
                        matches!(m.inst(*r).op, Op::CooperativeMatrixPerElementOpNV | Op::CooperativeMatrixReduceNV)
                    })
                    .count()
            };
            for f in graph.reachable([f]) {
                let found = graph.calls(f).iter().filter(|c| c.kind == CallKind::Callback).count();
                assert!(found >= callback(&f), "{}", path.display());
            }
        }
        let shader = m.has_capability(Capability::Shader);
        assert!(!shader || graph.recursive().is_empty(), "{}", path.display());
    }
}
