//! Rewrites OpenCL.std into GLSL.std.450.
//!
//! An instruction with a counterpart becomes that; where Vulkan requires less precision than OpenCL, the report says
//! so. An instruction without one is refused.

use super::Kernel;
use crate::Refusal;
use coop_ir::builder::add_global;
use coop_ir::effects::ExtSet;
use coop_ir::grammar::ext_inst_set;
use coop_ir::spv::GlslStd450;
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Op, Operand, string_operands};

/// The replacement of an instruction of OpenCL.std.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Translation {
    /// An instruction of GLSL.std.450.
    Glsl(GlslStd450),
    /// An instruction of GLSL.std.450 for which Vulkan requires less precision.
    About(GlslStd450),
    /// An instruction of SPIR-V.
    Plain(Op),
    /// Several instructions.
    Several,
    /// None: the instruction has no effect.
    Nothing,
}

fn equal(name: &str) -> Option<Translation> {
    use Translation::{About, Glsl, Nothing, Plain, Several};
    let name = name.strip_prefix("half_").or_else(|| name.strip_prefix("native_")).map_or((name, false), |n| (n, true));
    Some(match name {
        // The native_ and half_ functions are not precise in OpenCL either.
        ("sin", true) => Glsl(GlslStd450::Sin),
        ("cos", true) => Glsl(GlslStd450::Cos),
        ("tan", true) => Glsl(GlslStd450::Tan),
        ("exp", true) => Glsl(GlslStd450::Exp),
        ("exp2", true) => Glsl(GlslStd450::Exp2),
        ("log", true) => Glsl(GlslStd450::Log),
        ("log2", true) => Glsl(GlslStd450::Log2),
        ("powr", true) => Glsl(GlslStd450::Pow),
        ("sqrt", true) => Glsl(GlslStd450::Sqrt),
        ("rsqrt", true) => Glsl(GlslStd450::InverseSqrt),
        ("divide", true) => Plain(Op::FDiv),
        ("recip" | "exp10" | "log10", true) => Several,
        (_, true) => return None,
        ("sin", _) => About(GlslStd450::Sin),
        ("cos", _) => About(GlslStd450::Cos),
        ("tan", _) => About(GlslStd450::Tan),
        ("asin", _) => About(GlslStd450::Asin),
        ("acos", _) => About(GlslStd450::Acos),
        ("atan", _) => About(GlslStd450::Atan),
        ("sinh", _) => About(GlslStd450::Sinh),
        ("cosh", _) => About(GlslStd450::Cosh),
        ("tanh", _) => About(GlslStd450::Tanh),
        ("asinh", _) => About(GlslStd450::Asinh),
        ("acosh", _) => About(GlslStd450::Acosh),
        ("atanh", _) => About(GlslStd450::Atanh),
        ("atan2", _) => About(GlslStd450::Atan2),
        ("powr", _) => About(GlslStd450::Pow),
        ("exp", _) => About(GlslStd450::Exp),
        ("log", _) => About(GlslStd450::Log),
        ("exp2", _) => About(GlslStd450::Exp2),
        ("log2", _) => About(GlslStd450::Log2),
        ("sqrt", _) => About(GlslStd450::Sqrt),
        ("rsqrt", _) => About(GlslStd450::InverseSqrt),
        ("fma", _) => About(GlslStd450::Fma),
        ("mad", _) => Glsl(GlslStd450::Fma),
        ("rint", _) => Glsl(GlslStd450::RoundEven),
        ("trunc", _) => Glsl(GlslStd450::Trunc),
        ("fabs", _) => Glsl(GlslStd450::FAbs),
        ("s_abs", _) => Glsl(GlslStd450::SAbs),
        ("sign", _) => Glsl(GlslStd450::FSign),
        ("floor", _) => Glsl(GlslStd450::Floor),
        ("ceil", _) => Glsl(GlslStd450::Ceil),
        ("radians", _) => Glsl(GlslStd450::Radians),
        ("degrees", _) => Glsl(GlslStd450::Degrees),
        ("fmin_common", _) => Glsl(GlslStd450::FMin),
        ("u_min", _) => Glsl(GlslStd450::UMin),
        ("s_min", _) => Glsl(GlslStd450::SMin),
        ("fmax_common", _) => Glsl(GlslStd450::FMax),
        ("u_max", _) => Glsl(GlslStd450::UMax),
        ("s_max", _) => Glsl(GlslStd450::SMax),
        ("u_clamp", _) => Glsl(GlslStd450::UClamp),
        ("s_clamp", _) => Glsl(GlslStd450::SClamp),
        ("mix", _) => Glsl(GlslStd450::FMix),
        ("step", _) => Glsl(GlslStd450::Step),
        ("smoothstep", _) => Glsl(GlslStd450::SmoothStep),
        ("ldexp", _) => Glsl(GlslStd450::Ldexp),
        ("length", _) => Glsl(GlslStd450::Length),
        ("distance", _) => Glsl(GlslStd450::Distance),
        ("cross", _) => Glsl(GlslStd450::Cross),
        ("normalize", _) => Glsl(GlslStd450::Normalize),
        ("fmin", _) => Glsl(GlslStd450::NMin),
        ("fmax", _) => Glsl(GlslStd450::NMax),
        ("fclamp", _) => Glsl(GlslStd450::NClamp),
        ("fmod", _) => Plain(Op::FRem),
        ("s_mul24" | "u_mul24", _) => Plain(Op::IMul),
        ("popcount", _) => Plain(Op::BitCount),
        ("round" | "copysign" | "u_abs" | "clz" | "ctz" | "s_mad24" | "u_mad24" | "rotate" | "bitselect", _) => Several,
        ("select" | "s_mul_hi" | "u_mul_hi", _) => Several,
        ("prefetch", _) => Nothing,
        _ => return None,
    })
}

impl Kernel<'_> {
    /// Rewrites an instruction of an extended set.
    pub(super) fn rewrite_extended(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        match ExtSet::of(self.m, &inst) {
            ExtSet::OpenCl => {}
            // Describes an instruction that was removed.
            ExtSet::Note => {
                self.m.forget(r);
                return Ok(());
            }
            ExtSet::Glsl => {
                self.keep(r);
                return Ok(());
            }
            ExtSet::Other => return Err(self.no_such(r, "an instruction of an unknown set")),
        }
        let number = inst.ext_instruction().unwrap_or(u32::MAX);
        let table = ext_inst_set("OpenCL.std").unwrap_or(&[]);
        let name = table.iter().find(|i| i.number == number).map_or("an unknown instruction", |i| i.name);
        let (Some(ty), Some(found)) = (inst.ty, equal(name)) else { return Err(self.no_such(r, name)) };
        let args: Vec<Id> = inst.ids_from(2).map(|id| self.now(id)).collect();
        let arguments_fit = args.iter().all(|a| self.m.type_of(*a).is_some());
        let width = self.shape(ty).map_or(0, |(s, _)| s.width());
        let narrow = |op: GlslStd450| (GlslStd450::Radians..=GlslStd450::Log2).contains(&op);
        let wide = matches!(found, Translation::Glsl(op) | Translation::About(op) if narrow(op)) && width == 64;
        if wide || !arguments_fit || name == "popcount" && width != 32 {
            return Err(self.no_such(r, &format!("{name} of {width} bits")));
        }
        match found {
            Translation::Nothing => self.m.forget(r),
            Translation::Plain(op) => self.instead(r, op, ty, args.iter().map(|a| Operand::Id(*a))),
            Translation::Glsl(op) => self.glsl_instead(r, ty, op, &args),
            Translation::About(op) => {
                self.about.insert(name.to_owned());
                self.glsl_instead(r, ty, op, &args);
            }
            Translation::Several => {
                let value = self.several(name, ty, &args).ok_or_else(|| self.no_such(r, name))?;
                self.replace_result(r, value);
            }
        }
        Ok(())
    }

    fn no_such(&self, r: InstRef, name: &str) -> Refusal {
        let why = format!("{name} of OpenCL.std has no equivalent in GLSL.std.450");
        let remedy = "write it in the kernel, or use the native_ form";
        Refusal::new("refused-vulkan-math", Some(r), why, remedy)
    }

    fn glsl_set(&mut self) -> Id {
        if let Some(id) = self.glsl {
            return id;
        }
        let id = self.m.fresh_id();
        add_global(self.m, Inst::new(Op::ExtInstImport, None, Some(id), string_operands("GLSL.std.450")));
        self.glsl = Some(id);
        id
    }

    fn glsl_instead(&mut self, r: InstRef, ty: Id, op: GlslStd450, args: &[Id]) {
        let set = self.glsl_set();
        let head = [Operand::Id(set), Operand::Word(op.0)];
        self.instead(r, Op::ExtInst, ty, head.into_iter().chain(args.iter().map(|a| Operand::Id(*a))));
    }

    pub(super) fn glsl(&mut self, ty: Id, op: GlslStd450, args: &[Id]) -> Id {
        let set = self.glsl_set();
        let head = [Operand::Id(set), Operand::Word(op.0)];
        self.op(Op::ExtInst, ty, head.into_iter().chain(args.iter().map(|a| Operand::Id(*a))))
    }

    /// Returns a constant of a scalar or vector type with equal components.
    pub(super) fn splat(&mut self, ty: Id, bits: u64) -> Option<Id> {
        let (scalar, count) = self.shape(ty)?;
        let elem = self.component(ty);
        let one = self.g.constant_of(self.m, elem, scalar, bits);
        if count == 1 {
            return Some(one);
        }
        Some(self.ids(Op::CompositeConstruct, ty, &vec![one; count as usize]))
    }

    /// Returns a floating-point constant.
    fn float(&mut self, ty: Id, value: f32) -> Option<Id> {
        let (scalar, _) = self.shape(ty)?;
        let bits = match scalar {
            Scalar::Float { width: 32 } => u64::from(value.to_bits()),
            Scalar::Float { width: 64 } => f64::from(value).to_bits(),
            _ => {
                // Converted at run time; compilers fold it.
                let single = self.g.scalar(self.m, Scalar::Float { width: 32 });
                let (_, count) = self.shape(ty)?;
                let wide = if count == 1 { single } else { self.g.vector(self.m, single, count) };
                let wide = self.splat(wide, u64::from(value.to_bits()))?;
                return Some(self.ids(Op::FConvert, ty, &[wide]));
            }
        };
        self.splat(ty, bits)
    }

    /// Returns the Boolean type with as many components.
    fn booleans(&mut self, ty: Id) -> Option<Id> {
        let (_, count) = self.shape(ty)?;
        let boolean = self.g.bool(self.m);
        Some(if count == 1 { boolean } else { self.g.vector(self.m, boolean, count) })
    }

    /// Returns the unsigned integer type of that width with as many components.
    fn integers(&mut self, ty: Id, width: u32) -> Option<Id> {
        let (_, count) = self.shape(ty)?;
        let elem = self.g.uint(self.m, width);
        Some(if count == 1 { elem } else { self.g.vector(self.m, elem, count) })
    }

    fn several(&mut self, name: &str, ty: Id, args: &[Id]) -> Option<Id> {
        let (scalar, count) = self.shape(ty)?;
        let width = scalar.width();
        let name = name.strip_prefix("half_").or_else(|| name.strip_prefix("native_")).unwrap_or(name);
        Some(match (name, args) {
            ("u_abs", [x]) => *x,
            ("recip", [x]) => {
                let one = self.float(ty, 1.0)?;
                self.ids(Op::FDiv, ty, &[one, *x])
            }
            ("exp10", [x]) => {
                let factor = self.float(ty, std::f32::consts::LOG2_10)?;
                let power = self.ids(Op::FMul, ty, &[*x, factor]);
                self.glsl(ty, GlslStd450::Exp2, &[power])
            }
            ("log10", [x]) => {
                let factor = self.float(ty, std::f32::consts::LOG10_2)?;
                let log = self.glsl(ty, GlslStd450::Log2, &[*x]);
                self.ids(Op::FMul, ty, &[log, factor])
            }
            ("round", [x]) => {
                // Ties round away from zero; GLSL leaves that open.
                let half = self.float(ty, 0.5)?;
                let whole = self.glsl(ty, GlslStd450::Trunc, &[*x]);
                let rest = self.ids(Op::FSub, ty, &[*x, whole]);
                let rest = self.glsl(ty, GlslStd450::FAbs, &[rest]);
                let booleans = self.booleans(ty)?;
                let far = self.ids(Op::FOrdGreaterThanEqual, booleans, &[rest, half]);
                let sign = self.glsl(ty, GlslStd450::FSign, &[*x]);
                let next = self.ids(Op::FAdd, ty, &[whole, sign]);
                self.ids(Op::Select, ty, &[far, next, whole])
            }
            ("copysign", [x, y]) => {
                let int = self.integers(ty, width)?;
                let (x, y) = (self.ids(Op::Bitcast, int, &[*x]), self.ids(Op::Bitcast, int, &[*y]));
                let top = 1u64 << (width - 1);
                let (sign, rest) = (self.splat(int, top)?, self.splat(int, top - 1)?);
                let x = self.ids(Op::BitwiseAnd, int, &[x, rest]);
                let y = self.ids(Op::BitwiseAnd, int, &[y, sign]);
                let both = self.ids(Op::BitwiseOr, int, &[x, y]);
                self.ids(Op::Bitcast, ty, &[both])
            }
            ("clz", [x]) if width == 32 => {
                let top = self.glsl(ty, GlslStd450::FindUMsb, &[*x]);
                let last = self.splat(ty, 31)?;
                self.ids(Op::ISub, ty, &[last, top])
            }
            ("ctz", [x]) if width == 32 => {
                let low = self.glsl(ty, GlslStd450::FindILsb, &[*x]);
                let (zero, all) = (self.splat(ty, 0)?, self.splat(ty, 32)?);
                let booleans = self.booleans(ty)?;
                let none = self.ids(Op::IEqual, booleans, &[*x, zero]);
                self.ids(Op::Select, ty, &[none, all, low])
            }
            ("s_mad24" | "u_mad24", [x, y, z]) => {
                let product = self.ids(Op::IMul, ty, &[*x, *y]);
                self.ids(Op::IAdd, ty, &[product, *z])
            }
            ("s_mul_hi" | "u_mul_hi", [x, y]) if width <= 32 => {
                let op = if name == "s_mul_hi" { Op::SConvert } else { Op::UConvert };
                let wide = self.integers(ty, 2 * width)?;
                let (x, y) = (self.ids(op, wide, &[*x]), self.ids(op, wide, &[*y]));
                let product = self.ids(Op::IMul, wide, &[x, y]);
                let shift = self.splat(wide, u64::from(width))?;
                let high = self.ids(Op::ShiftRightLogical, wide, &[product, shift]);
                self.ids(Op::UConvert, ty, &[high])
            }
            ("rotate", [x, n]) => {
                let mask = self.splat(ty, u64::from(width - 1))?;
                let left = self.ids(Op::BitwiseAnd, ty, &[*n, mask]);
                let back = self.ids(Op::SNegate, ty, &[*n]);
                let right = self.ids(Op::BitwiseAnd, ty, &[back, mask]);
                let a = self.ids(Op::ShiftLeftLogical, ty, &[*x, left]);
                let b = self.ids(Op::ShiftRightLogical, ty, &[*x, right]);
                self.ids(Op::BitwiseOr, ty, &[a, b])
            }
            ("bitselect", [a, b, c]) if scalar.is_int() => {
                let not = self.ids(Op::Not, ty, &[*c]);
                let a = self.ids(Op::BitwiseAnd, ty, &[*a, not]);
                let b = self.ids(Op::BitwiseAnd, ty, &[*b, *c]);
                self.ids(Op::BitwiseOr, ty, &[a, b])
            }
            ("select", [a, b, c]) => {
                let by = self.m.type_of(*c)?;
                let zero = self.splat(by, 0)?;
                let booleans = self.booleans(ty)?;
                let op = if count == 1 { Op::INotEqual } else { Op::SLessThan };
                let second = self.ids(op, booleans, &[*c, zero]);
                self.ids(Op::Select, ty, &[second, *b, *a])
            }
            _ => return None,
        })
    }
}
