//! The placement of the elements of a matrix: which invocation holds which element at which index.
//!
//! SPIR-V leaves that to the implementation, so a shader whose result depends on it is wrong; running it with two of
//! these mappings shows it. Every (index, invocation) holds an element, so that index 0 exists everywhere: where there
//! are more slots than elements, elements are replicated.

use super::num::Num;

/// A placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Each invocation holds consecutive elements, row by row.
    #[default]
    BlockedRows,
    /// Neighboring elements are in neighboring invocations; Use B goes by columns.
    Interleaved,
    /// Every element is held by two invocations.
    Replicated,
    /// Interleaved in a pseudo-random order.
    Permuted,
    /// Blocks of 16x16 are held as NVIDIA's driver holds them, measured by `cooprun placement` on an H200: rows and columns
    /// in halves of 8, in which four neighboring invocations hold a row, two elements each. Interleaved where a matrix has
    /// no such blocks.
    Fragments,
}

impl Placement {
    /// All placements.
    pub const ALL: [Placement; 5] = [
        Placement::BlockedRows,
        Placement::Interleaved,
        Placement::Replicated,
        Placement::Permuted,
        Placement::Fragments,
    ];
}

/// The placement of one matrix type.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// The number of elements that each invocation holds.
    pub len: u32,
    /// The number of invocations that share a matrix.
    pub members: u32,
    /// The element (row-major number) at each place; place = index * members + member.
    pub element: Vec<u32>,
    /// The first place of each element.
    pub home: Vec<u32>,
}

impl Placed {
    pub(super) fn new(placement: Placement, rows: u32, cols: u32, use_: u32, members: u32, _num: Num) -> Placed {
        let elems = rows as usize * cols as usize;
        let copies = if placement == Placement::Replicated { 2 } else { 1 };
        let len = (elems * copies).div_ceil(members as usize).max(1);
        let mut element = vec![0u32; len * members as usize];
        let mut home = vec![u32::MAX; elems];
        let step = coprime(elems);
        for index in 0..len {
            for member in 0..members as usize {
                let place = index * members as usize + member;
                let number = match placement {
                    Placement::Fragments if has_fragments(rows, cols, use_, members) => {
                        fragment_element(cols as usize, index, member)
                    }
                    Placement::BlockedRows | Placement::Replicated => (member * len + index) % elems.max(1),
                    Placement::Interleaved | Placement::Fragments if use_ == 1 => {
                        let n = place % elems.max(1);
                        (n % rows as usize) * cols as usize + n / rows as usize
                    }
                    Placement::Interleaved | Placement::Fragments => place % elems.max(1),
                    Placement::Permuted => (place % elems.max(1)) * step % elems.max(1),
                };
                element[place] = number as u32;
                if let Some(h) = home.get_mut(number)
                    && *h == u32::MAX
                {
                    *h = place as u32;
                }
            }
        }
        Placed { len: len as u32, members, element, home }
    }
}

/// Returns true if a matrix is cut in blocks of 16x16 elements that 32 invocations hold. The right factor is another matter.
fn has_fragments(rows: u32, cols: u32, use_: u32, members: u32) -> bool {
    members == 32 && use_ != 1 && rows.is_multiple_of(16) && cols.is_multiple_of(16)
}

/// The element that an invocation holds at an index, in blocks that stand row by row.
fn fragment_element(cols: usize, index: usize, member: usize) -> usize {
    let (block, index) = (index / 8, index % 8);
    let row = index / 4 * 8 + member / 4;
    let col = index / 2 % 2 * 8 + member % 4 * 2 + index % 2;
    (block / (cols / 16) * 16 + row) * cols + block % (cols / 16) * 16 + col
}

/// Returns a number coprime to `n`, somewhat below 0.62 * n.
fn coprime(n: usize) -> usize {
    let mut step = (n * 618 / 1000).max(1);
    while gcd(step, n) != 1 {
        step -= 1;
    }
    step
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_a_home() {
        for placement in Placement::ALL {
            for (rows, cols, members) in [(16, 16, 32), (8, 8, 8), (1, 1, 32), (3, 5, 4), (128, 64, 256), (16, 8, 64)] {
                for use_ in 0..3 {
                    let placed = Placed::new(placement, rows, cols, use_, members, Num::F32);
                    assert_eq!(placed.element.len(), placed.len as usize * members as usize);
                    for (e, place) in placed.home.iter().enumerate() {
                        assert_eq!(
                            placed.element[*place as usize] as usize, e,
                            "{placement:?} {rows}x{cols}/{members}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn one_mapping_replicates() {
        let placed = Placed::new(Placement::Replicated, 16, 16, 2, 32, Num::F32);
        for e in 0..256 {
            assert_eq!(placed.element.iter().filter(|x| **x == e).count(), 2);
        }
        assert_eq!(Placed::new(Placement::Permuted, 16, 16, 2, 32, Num::F32).len, 8);
    }

    /// Some places of the tables that `cooprun placement --matrix f16:16x16:A` and `f32:16x16:accumulator` print on an H200.
    #[test]
    fn fragments_are_as_measured() {
        for use_ in [0, 2] {
            let placed = Placed::new(Placement::Fragments, 16, 16, use_, 32, Num::F32);
            let at = |row: u32, col: u32| {
                let place = placed.home[(row * 16 + col) as usize];
                (place % 32, place / 32)
            };
            assert_eq!([at(0, 0), at(0, 1), at(0, 2), at(0, 8)], [(0, 0), (0, 1), (1, 0), (0, 2)]);
            assert_eq!([at(1, 0), at(8, 0), at(9, 11), at(15, 15)], [(4, 0), (0, 4), (5, 7), (31, 7)]);
        }
    }
}
