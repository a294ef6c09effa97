//! Cooperative matrices: memory, conversion of layout, element access. Each instance of the scope is executed by
//! itself: its elements are gathered row by row from the invocations that hold them, processed, and scattered back.

use coop_ir::hash::FxHashMap;
use coop_ir::spv::{CooperativeMatrixLayout as Layout, CooperativeMatrixUse, Scope};
use std::ops::Range;

use smallvec::SmallVec;

use super::Semantics;
use super::code::{CoopMem, Ins, NO_ROW, Row};
use super::findings::FindingKind;
use super::location::{Fault, Location};
use super::machine::{Machine, Stop};
use super::num::{Num, mask, signed};
use super::program::tag;
use super::shared_race::Agent;
use super::taint::Taint;
use super::types::{Coop, Ty};

impl Machine<'_> {
    pub(super) fn matrix_step(&mut self, ins: &Ins) -> Result<(), Stop> {
        match ins {
            Ins::CoopLoad { dst, ty, mem } => self.coop_load(*dst, *ty, mem),
            Ins::CoopStore { src, ty, mem } => self.coop_store(*src, *ty, mem),
            Ins::MulAdd(m) => self.mul_add(m),
            Ins::Relayout { dst, src, from, to, transpose } => self.relayout(*dst, *src, *from, *to, *transpose),
            Ins::Reduce { dst, src, from, to, mask, func } => self.reduce(*dst, *src, *from, *to, *mask, *func),
            Ins::PerElement { dst, src, ty, func, extras } => self.per_element(*dst, *src, *ty, *func, extras),
            Ins::Tensor(t) => self.tensor(t),
            Ins::GetCoord { dst, ty, index } => {
                self.get_coord(*dst, *ty, *index);
                Ok(())
            }
            Ins::ConstructChecked { dst, ty, at, bound, value } => {
                self.construct_checked(*dst, *ty, *at, *bound, *value)
            }
            Ins::Splat { dst, ty, value } => self.splat(*dst, *ty, *value),
            Ins::Rake { dst, src, ty, array, bits, out } => self.rake(*dst, *src, *ty, (*array, *bits), *out),
            _ => Err(self.unsupported("an instruction without an implementation")),
        }
    }

    pub(super) fn coop(&self, ty: Ty) -> &'_ Coop {
        self.p.types.coop(ty).unwrap_or_else(|| unreachable!("translation made sure of the type"))
    }

    /// Returns the instances of a matrix type's scope that have active invocations. That all of each are active has
    /// been checked: `Ins::Converged` precedes every instruction on matrices.
    pub(super) fn matrix_instances(&self, ty: Ty) -> Result<Vec<Range<usize>>, Stop> {
        let (scope, members) = (self.coop(ty).scope, self.coop(ty).placed.members as usize);
        let mask = self.regs.act.mask;
        let active: Vec<_> = self.instances(scope).filter(|r| r.clone().any(|l| mask.has(l))).collect();
        if let Some(part) = active.iter().find(|r| r.len() != members) {
            let lanes = part.len();
            return Err(self.unsupported(&format!("a matrix of a subgroup that has {lanes} of {members} invocations")));
        }
        Ok(active)
    }

    /// Collects the elements of a matrix into `tile`.
    pub(super) fn gather(&mut self, src: Row, ty: Ty, range: &Range<usize>) {
        let p = self.p;
        let Some(coop) = p.types.coop(ty) else { return };
        let (placed, lanes) = (&coop.placed, self.regs.lanes);
        let members = placed.members as usize;
        self.tile.clear();
        for place in &placed.home {
            let (index, member) = (*place as usize / members, *place as usize % members);
            self.tile.push(self.regs.r[(src as usize + index) * lanes + range.start + member]);
        }
        self.tile_taint.clear();
        if self.regs.any_taint(src..src + placed.len) {
            let taints = placed.home.iter().map(|place| {
                let (index, member) = (*place as usize / members, *place as usize % members);
                self.regs.taint(src + index as u32, range.start + member)
            });
            self.tile_taint.extend(taints);
        }
        if placed.element.len() != placed.home.len() {
            self.check_copies(src, coop, range);
        }
    }

    /// Reports elements that several invocations hold with different values.
    fn check_copies(&mut self, src: Row, coop: &Coop, range: &Range<usize>) {
        let members = coop.placed.members as usize;
        for (place, e) in coop.placed.element.iter().enumerate() {
            let (index, member) = (place / members, place % members);
            let (row, lane) = (src + index as u32, range.start + member);
            let v = self.regs.get(row, lane);
            let undefined =
                self.regs.is_undefined(row, lane) || self.tile_taint.get(*e as usize) == Some(&Taint::Undefined);
            if undefined || !self.regs.act.mask.has(lane) {
                continue;
            }
            self.lose_differing_copy((row, lane), *e as usize);
            if v != self.tile[*e as usize] {
                let (first, cols) = (self.tile[*e as usize], coop.cols);
                let (r, c) = (e / cols, e % cols);
                self.find(FindingKind::Placement, || {
                    format!(
                        "element ({r}, {c}) is held twice, with values {first:#x} and {v:#x}: \
                         what was stored depends on which invocation holds what"
                    )
                });
                return;
            }
        }
    }

    /// Loses the term of an element of `tile` of which an invocation holds a copy with another one: the values are equal for
    /// the data of the case only.
    fn lose_differing_copy(&mut self, (row, lane): (Row, usize), element: usize) {
        let taint = self.regs.taint(row, lane);
        if let Some(symbols) = &mut self.regs.symbols
            && let Some(first) = self.tile_taint.get_mut(element)
            && !first.is_same_term(taint)
        {
            *first = symbols.lose("an element that is held twice, as different expressions");
        }
    }

    /// Distributes the elements in `tile` to the invocations.
    pub(super) fn scatter(&mut self, dst: Row, ty: Ty, range: &Range<usize>) {
        let p = self.p;
        let Some(coop) = p.types.coop(ty) else { return };
        let (placed, lanes) = (&coop.placed, self.regs.lanes);
        let members = placed.members as usize;
        let any = self.tile_taint.iter().any(|taint| *taint != Taint::Exact);
        for (index, elements) in placed.element.chunks_exact(members).enumerate() {
            let at = (dst as usize + index) * lanes + range.start;
            for (slot, e) in self.regs.r[at..at + members].iter_mut().zip(elements) {
                *slot = self.tile[*e as usize];
            }
            let row = dst as usize + index;
            if any || self.regs.dirty[row] {
                for (member, e) in elements.iter().enumerate() {
                    let taint = self.tile_taint.get(*e as usize).copied().unwrap_or_default();
                    self.regs.set_taint(row as u32, range.start + member, taint);
                }
            }
        }
    }

    /// Returns the offset of each element from the pointer, in bytes (in half bytes for 4-bit elements); `None` for
    /// elements outside a checked surface.
    fn offsets(&mut self, coop: &Coop, mem: &CoopMem, range: &Range<usize>) -> Result<Vec<Option<i64>>, Stop> {
        let mut out = std::mem::take(&mut self.scratch.offsets);
        out.clear();
        let halves = is_half(coop);
        if !coop.num.bits().is_multiple_of(8) && (!halves || !is_strided(mem.layout)) {
            return Err(self.unsupported("components of less than a byte in memory"));
        }
        let (e, per_byte) = if halves { (1, 2) } else { (i64::from(coop.num.bytes()), 1) };
        let unit = if mem.unit == 0 { e } else { i64::from(mem.unit) * per_byte };
        let at = |this: &mut Self, row: Row| signed(this.uniform(row, range.clone(), "a coordinate"), 32);
        let (origin, bound) = match &mem.surface {
            Some(s) => {
                let origin = [at(self, s.at[0]), at(self, s.at[1])];
                let bound =
                    s.bound.map(|b| b.map(|(row, num)| extent(self.uniform(row, range.clone(), "a coordinate"), num)));
                (origin, bound)
            }
            None => ([0, 0], None),
        };
        let stride = match (mem.stride, bound) {
            (NO_ROW, Some([_, width])) => width,
            (NO_ROW, None) => 0,
            _ => {
                let v = self.uniform(mem.stride, range.clone(), "the stride");
                self.check_stride(v, mem)
            }
        };
        // Packed: 32 bits hold this many components, of rows below each other.
        let pf = i64::from((32 / coop.num.bits()).max(1));
        if !is_strided(mem.layout) && !is_blocked(mem.layout) {
            return Err(self.unsupported(&format!("memory layout {}", mem.layout)));
        }
        if mem.stride == NO_ROW && bound.is_none() && is_strided(mem.layout) {
            return Err(self.unsupported("a memory layout without a stride"));
        }
        for r in 0..i64::from(coop.rows) {
            for c in 0..i64::from(coop.cols) {
                let (major, minor) = match mem.layout {
                    Layout::RowMajorKHR => (r, c),
                    Layout::ColumnMajorKHR => (c, r),
                    Layout::PackedINTEL if coop.use_ == CooperativeMatrixUse::MatrixAKHR.0 => (r, c),
                    Layout::PackedINTEL => (r / pf, c * pf + r % pf),
                    arm => {
                        out.push(Some(arm_offset(arm, r, c, coop, stride)));
                        continue;
                    }
                };
                let (major, minor) = (origin[0] + major, origin[1] + minor);
                let inside = bound.is_none_or(|[h, w]| (0..h).contains(&major) && (0..w).contains(&minor));
                out.push(inside.then_some(major.wrapping_mul(stride).wrapping_mul(unit).wrapping_add(minor * e)));
            }
        }
        Ok(out)
    }

    fn check_stride(&mut self, v: u64, mem: &CoopMem) -> i64 {
        let s = signed(v, mem.stride_num.bits());
        if s < 0 && mem.stride_num.bits() < 64 && !matches!(mem.stride_num, super::num::Num::Int { signed: true, .. }) {
            return v as i64;
        }
        if s < 0 {
            self.find(FindingKind::Undefined, || format!("the stride {s} is negative"));
        }
        s
    }

    fn coop_load(&mut self, dst: Row, ty: Ty, mem: &CoopMem) -> Result<(), Stop> {
        let p = self.p;
        for range in self.matrix_instances(ty)? {
            let Some(coop) = p.types.coop(ty) else { continue };
            let ptr = self.uniform(mem.ptr, range.clone(), "the pointer");
            let offsets = self.offsets(coop, mem, &range)?;
            self.tile.clear();
            self.tile.resize(coop.elems(), 0);
            self.tile_taint.clear();
            let bytes = coop.num.bytes() as u8;
            let agent = self.matrix_agent(coop.scope, &range);
            self.check_alignment(ptr, coop, mem, &range);
            for (i, offset) in offsets.iter().enumerate() {
                let Some(offset) = offset else { continue };
                let (at, shift) = if is_half(coop) { (offset >> 1, (offset & 1) * 4) } else { (*offset, 0) };
                let (v, taint) = self.coop_read(ptr.wrapping_add(at as u64), bytes, agent);
                self.tile[i] = mask(v >> shift, coop.num.bits());
                let taint = match &mut self.regs.symbols {
                    Some(symbols) if is_half(coop) => symbols.part_of(taint, v, shift as u32, coop.num.bits()),
                    _ => taint,
                };
                if taint != Taint::Exact {
                    self.tile_taint.resize(coop.elems(), Taint::Exact);
                    self.tile_taint[i] = taint;
                }
            }
            self.scratch.offsets = offsets;
            self.scatter(dst, ty, &range);
        }
        Ok(())
    }

    fn coop_store(&mut self, src: Row, ty: Ty, mem: &CoopMem) -> Result<(), Stop> {
        let p = self.p;
        for range in self.matrix_instances(ty)? {
            let Some(coop) = p.types.coop(ty) else { continue };
            let ptr = self.uniform(mem.ptr, range.clone(), "the pointer");
            let offsets = self.offsets(coop, mem, &range)?;
            self.gather(src, ty, &range);
            let bytes = coop.num.bytes() as u8;
            let agent = self.matrix_agent(coop.scope, &range);
            self.check_alignment(ptr, coop, mem, &range);
            if mem.stride != NO_ROW && self.regs.get(mem.stride, range.start) == 0 && is_strided(mem.layout) {
                self.find(FindingKind::Undefined, || "the stride of a store is 0".into());
            } else {
                self.check_overlap(coop, mem, &offsets);
            }
            for (i, offset) in offsets.iter().enumerate() {
                let Some(offset) = offset else { continue };
                let (mut v, mut taint) = (self.tile[i], self.tile_taint.get(i).copied().unwrap_or_default());
                let at = if is_half(coop) { offset >> 1 } else { *offset };
                let at = ptr.wrapping_add(at as u64);
                if is_half(coop) {
                    // The other half of the byte stays.
                    let (old, before) = self.coop_read(at, bytes, agent);
                    let shift = (offset & 1) * 4;
                    v = old & !(0xf << shift) | v << shift;
                    taint = taint.with(before);
                }
                self.coop_write(at, bytes, v, taint, agent);
            }
            self.scratch.offsets = offsets;
        }
        Ok(())
    }

    /// Reports a store of different elements to one place: no order of theirs says which of them stays.
    fn check_overlap(&mut self, coop: &Coop, mem: &CoopMem, offsets: &[Option<i64>]) {
        if !is_major(mem.layout) {
            return;
        }
        let (second, length) =
            if mem.layout == Layout::ColumnMajorKHR { (1, coop.rows) } else { (coop.cols, coop.cols) };
        let (Some(Some(from)), Some(Some(to))) = (offsets.first(), offsets.get(second as usize)) else { return };
        let step = if is_half(coop) { 1 } else { u64::from(coop.num.bytes()) };
        if to.abs_diff(*from) >= u64::from(length) * step {
            return;
        }
        let mut stored: FxHashMap<i64, u64> = FxHashMap::default();
        let elements = offsets.iter().zip(&self.tile);
        let mut twice = elements.filter_map(|(offset, v)| Some((stored.insert((*offset)?, *v)?, *v)));
        if twice.any(|(before, v)| before != v) {
            self.find(FindingKind::DataRace, || {
                "rows or columns of a store overlap: different elements are stored to one place, in no order".into()
            });
        }
    }

    /// Reports a pointer or stride that is not a multiple of the component's size, or only of that and not of what
    /// Vulkan requires.
    fn check_alignment(&mut self, ptr: u64, coop: &Coop, mem: &CoopMem, range: &Range<usize>) {
        let bytes = u64::from(coop.num.bytes());
        let (lines, length) =
            if mem.layout == Layout::ColumnMajorKHR { (coop.cols, coop.rows) } else { (coop.rows, coop.cols) };
        let counted = mem.stride != NO_ROW && mem.unit > 0 && is_major(mem.layout) && lines > 1;
        let stride = counted.then(|| self.regs.get(mem.stride, range.start).wrapping_mul(u64::from(mem.unit)));
        let broken = |need: u64| {
            let pointer = tag::is_misaligned(ptr, need).then(|| format!("the pointer {ptr:#x}"));
            let stride = stride.filter(|s| !s.is_multiple_of(need)).map(|s| format!("the stride of {s} bytes"));
            pointer.or(stride)
        };
        if let Some(what) = broken(bytes.max(1)) {
            self.find(FindingKind::Misaligned, || format!("{what} is not a multiple of {bytes}"));
            return;
        }
        let need = (u64::from(length) * bytes).min(16);
        if !mem.vulkan || !need.is_power_of_two() || self.config.semantics == Semantics::Nvidia {
            return;
        }
        if let Some(what) = broken(need) {
            self.find(FindingKind::Portability, || {
                format!("{what} is not a multiple of {need}: Vulkan leaves that undefined, drivers that load single elements do what is meant")
            });
        }
    }

    pub(super) fn matrix_agent(&mut self, scope: u32, range: &Range<usize>) -> Agent {
        let subgroup = if scope == Scope::Subgroup.0 { (range.start / self.p.subgroup) as u16 } else { Agent::ALL };
        self.race.matrix_agent(subgroup)
    }

    /// Reads one element.
    pub(super) fn coop_read(&mut self, p: u64, bytes: u8, agent: Agent) -> (u64, Taint) {
        match self.resolve(p, u64::from(bytes)) {
            Ok(Location::Rows(_) | Location::Own(_)) | Err(Fault::Null) => {
                self.find(FindingKind::OutOfBounds, || "the pointer is not to memory".into());
                (0, Taint::Exact)
            }
            Ok(place) => {
                match place {
                    Location::Shared(at) => self.note_access(at..at + usize::from(bytes), agent, false, false),
                    Location::Buffer(i, at) => {
                        self.note_own(i, at..at + usize::from(bytes), agent.loads(), false, false);
                    }
                    _ => {}
                }
                self.read_quietly(place, bytes)
            }
            Err(fault) => {
                self.report_fault(fault, "the matrix", "reads");
                (0, Taint::Exact)
            }
        }
    }

    fn read_quietly(&mut self, place: Location, bytes: u8) -> (u64, Taint) {
        self.read(place, 0, bytes, None)
    }

    /// Writes one element.
    pub(super) fn coop_write(&mut self, p: u64, bytes: u8, v: u64, taint: Taint, agent: Agent) {
        match self.resolve(p, u64::from(bytes)) {
            Ok(Location::Rows(_) | Location::Own(_)) | Err(Fault::Null) => {
                self.find(FindingKind::OutOfBounds, || "the pointer is not to memory".into());
            }
            Ok(place) => {
                if let Location::Shared(at) = place {
                    self.note_access(at..at + usize::from(bytes), agent, true, false);
                }
                let changed = self.write(place, 0, bytes, v, taint, None);
                if let Location::Buffer(i, at) = place
                    && changed
                {
                    self.note_own(i, at..at + usize::from(bytes), agent, true, false);
                }
            }
            Err(fault) => self.report_fault(fault, "the matrix", "writes"),
        }
    }

    pub(super) fn relayout(&mut self, dst: Row, src: Row, from: Ty, to: Ty, transpose: bool) -> Result<(), Stop> {
        let p = self.p;
        let (Some(a), Some(b)) = (p.types.coop(from), p.types.coop(to)) else { return Ok(()) };
        let wanted = if transpose { (a.cols, a.rows) } else { (a.rows, a.cols) };
        if (b.rows, b.cols) != wanted {
            let ((h, w), (rows, cols)) = (wanted, (b.rows, b.cols));
            self.find(FindingKind::MatrixSize, || format!("the result is {rows}x{cols} where it must be {h}x{w}"));
            return Ok(());
        }
        for range in self.matrix_instances(from)? {
            self.gather(src, from, &range);
            if transpose {
                let (rows, cols) = (b.rows as usize, b.cols as usize);
                let swap = |i: usize| (i % cols) * rows + i / cols;
                self.tile = (0..self.tile.len()).map(|i| self.tile[swap(i)]).collect();
                if !self.tile_taint.is_empty() {
                    self.tile_taint = (0..self.tile.len()).map(|i| self.tile_taint[swap(i)]).collect();
                }
            }
            self.scatter(dst, to, &range);
        }
        Ok(())
    }

    fn get_coord(&mut self, dst: Row, ty: Ty, index: Row) {
        let p = self.p;
        let Some(coop) = p.types.coop(ty) else { return };
        let members = coop.placed.members as usize;
        for k in 0..self.regs.act.list.len() {
            let l = self.regs.act.list[k] as usize;
            let i = self.regs.get(index, l) as usize;
            let member = if coop.scope == Scope::Subgroup.0 { l % self.p.subgroup } else { l };
            let e = coop.placed.element.get(i.saturating_mul(members).saturating_add(member % members)).copied();
            let taint = Taint::undefined_if(e.is_none()).with(self.regs.taint(index, l));
            let e = e.unwrap_or(0);
            self.regs.put(dst, l, u64::from(e / coop.cols));
            self.regs.put(dst + 1, l, u64::from(e % coop.cols));
            self.regs.set_taint(dst, l, taint);
            self.regs.set_taint(dst + 1, l, taint);
        }
    }

    fn construct_checked(
        &mut self,
        dst: Row,
        ty: Ty,
        at: [Row; 2],
        bound: [(Row, Num); 2],
        value: Row,
    ) -> Result<(), Stop> {
        let p = self.p;
        for range in self.matrix_instances(ty)? {
            let Some(coop) = p.types.coop(ty) else { continue };
            let mut get = |row: Row| signed(self.uniform(row, range.clone(), "a coordinate"), 32);
            let [x, y] = at.map(&mut get);
            let [h, w] = bound.map(|(row, num)| extent(self.uniform(row, range.clone(), "a coordinate"), num));
            let v = self.uniform(value, range.clone(), "the value");
            let taint = self.regs.taint(value, range.start);
            self.tile.clear();
            self.tile_taint.clear();
            for r in 0..i64::from(coop.rows) {
                for c in 0..i64::from(coop.cols) {
                    // Intel's compiler looks at the upper bounds only.
                    let inside = (0..h).contains(&(x + r)) && (0..w).contains(&(y + c));
                    self.tile.push(if inside { v } else { 0 });
                    self.tile_taint.push(if inside { taint } else { Taint::Exact });
                }
            }
            self.scatter(dst, ty, &range);
        }
        Ok(())
    }

    /// Loses the terms of a value that must be uniform, if the invocations have different ones: the values are equal for the
    /// data of the case only.
    fn lose_differing_values(&mut self, row: Row, range: &Range<usize>) {
        let lanes = || range.clone().filter(|l| self.regs.act.mask.has(*l) && !self.regs.is_undefined(row, *l));
        let first = lanes().next().map(|l| self.regs.taint(row, l)).unwrap_or_default();
        if self.regs.symbols.is_some() && lanes().any(|l| !first.is_same_term(self.regs.taint(row, l))) {
            let lost = self.regs.symbols.as_mut().map(|symbols| symbols.lose("a value that must be uniform"));
            range.clone().for_each(|l| self.regs.set_taint(row, l, lost.unwrap_or_default()));
        }
    }

    fn splat(&mut self, dst: Row, ty: Ty, value: Row) -> Result<(), Stop> {
        for range in self.matrix_instances(ty)? {
            let active = range.clone().filter(|l| self.regs.act.mask.has(*l) && !self.regs.is_undefined(value, *l));
            if let Err((a, b)) = self.regs.uniform(value, active) {
                let (x, y) = (self.regs.get(value, a), self.regs.get(value, b));
                self.find(FindingKind::NonUniformOperand, || {
                    format!("the value differs: {x:#x} in invocation {a}, {y:#x} in invocation {b}")
                });
            }
            self.lose_differing_values(value, &range);
        }
        for i in 0..self.coop(ty).placed.len {
            self.regs.copy(dst + i, value, 1);
        }
        Ok(())
    }

    /// Copies between an array and a matrix: invocation i has row i (A, Accumulator) or column i (B) in its array.
    fn rake(&mut self, dst: Row, src: Row, ty: Ty, (array, bits): (u32, u32), out: bool) -> Result<(), Stop> {
        let p = self.p;
        let Some(coop) = p.types.coop(ty) else { return Ok(()) };
        let by_column = coop.use_ == 1;
        let (count, length) = if by_column { (coop.cols, coop.rows) } else { (coop.rows, coop.cols) };
        let w = coop.num.bits();
        if u64::from(array) * u64::from(bits) != u64::from(length) * u64::from(w) || bits % w != 0 {
            return Err(self.unsupported("an array that does not hold one row or column"));
        }
        if count as usize > self.p.subgroup {
            return Err(self.unsupported("a matrix with more rows or columns than the subgroup has invocations"));
        }
        let per = bits / w;
        let element = |i: u32, k: u32| if by_column { k * coop.cols + i } else { i * coop.cols + k } as usize;
        for range in self.matrix_instances(ty)? {
            if out {
                self.gather(src, ty, &range);
                for lane in range.clone() {
                    let i = (lane - range.start) as u32;
                    for word in 0..array {
                        let mut parts: SmallVec<[(u64, Taint); 8]> = SmallVec::new();
                        for e in (0..per).filter(|_| i < count).map(|k| element(i, word * per + k)) {
                            parts.push((self.tile[e], self.tile_taint.get(e).copied().unwrap_or_default()));
                        }
                        let v = (0..).zip(&parts).fold(0, |v, (k, part)| v | part.0 << (k * w));
                        let all = |parts: &[(u64, Taint)]| match parts {
                            [one] => one.1,
                            _ => parts.iter().fold(Taint::undefined_if(i >= count), |taint, part| taint.with(part.1)),
                        };
                        let one = self.regs.symbols.as_mut().filter(|_| i < count);
                        let taint = one.and_then(|symbols| symbols.in_one(&parts, w)).unwrap_or_else(|| all(&parts));
                        self.regs.put(dst + word, lane, v);
                        self.regs.set_taint(dst + word, lane, taint);
                    }
                }
                continue;
            }
            self.tile.clear();
            self.tile.resize(coop.elems(), 0);
            self.tile_taint.clear();
            self.tile_taint.resize(coop.elems(), Taint::Exact);
            for i in 0..count {
                let lane = range.start + i as usize;
                for k in 0..length {
                    let v = self.regs.get(src + k / per, lane) >> (k % per * w);
                    self.tile[element(i, k)] = super::num::mask(v, w);
                    let taint = self.regs.taint(src + k / per, lane);
                    let word = self.regs.get(src + k / per, lane);
                    self.tile_taint[element(i, k)] = match &mut self.regs.symbols {
                        Some(symbols) => symbols.part_of(taint, word, k % per * w, w),
                        None if per == 1 => taint,
                        None => taint.with(Taint::Exact),
                    };
                }
            }
            self.scatter(dst, ty, &range);
        }
        Ok(())
    }
}

/// Returns true if two elements share a byte in memory, the first in its low bits (SPV_INTEL_int4).
fn is_half(coop: &Coop) -> bool {
    matches!(coop.num, Num::Int { width: 4, .. })
}

/// Converts a height or width; one of 64 bits is clamped to what offsets can reach.
fn extent(v: u64, num: Num) -> i64 {
    match num {
        Num::Int { signed: false, .. } if num.bits() == 64 => i64::try_from(v).unwrap_or(i64::MAX),
        _ => signed(v, num.bits()),
    }
}

/// Returns true if the elements of a row or of a column follow each other.
pub(super) fn is_major(layout: Layout) -> bool {
    matches!(layout, Layout::RowMajorKHR | Layout::ColumnMajorKHR)
}

/// Returns true if accesses with the layout have a stride between rows, columns or packed rows.
fn is_strided(layout: Layout) -> bool {
    is_major(layout) || layout == Layout::PackedINTEL
}

/// Returns true for the layouts of SPV_ARM_cooperative_matrix_layouts.
fn is_blocked(layout: Layout) -> bool {
    matches!(layout, Layout::RowBlockedInterleavedARM | Layout::ColumnBlockedInterleavedARM)
}

/// SPV_ARM_cooperative_matrix_layouts: blocks of 4 rows and 16 bytes, `s` of them interleaved by 4 bytes.
fn arm_offset(layout: Layout, r: i64, c: i64, coop: &Coop, s: i64) -> i64 {
    let e = i64::from(coop.num.bytes());
    let (w, s) = ((16 / e).max(1), s.max(1));
    let (br, bc) = (r / 4, c / w);
    let block = if layout == Layout::RowBlockedInterleavedARM {
        br * (i64::from(coop.cols) / w) + bc
    } else {
        bc * (i64::from(coop.rows) / 4) + br
    };
    let q = r % 4 * 16 + c % w * e;
    let (group, lane) = (block / s, block % s);
    group * 64 * s + q / 4 * 4 * s + lane * 4 + q % 4
}
