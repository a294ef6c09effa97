//! In which order spots are played.

use super::super::graph::{End, NONE};
use super::super::solve::Solved;
use coop_ir::cfg::Order;

/// By spot and by edge, when it is the turn of those who come there: numbered so that those who parted meet as early as
/// they can.
pub(super) fn turns(solved: &Solved) -> (Vec<u32>, Vec<u32>) {
    let program = solved.program;
    let orders: Vec<Option<Order>> =
        program.bodies.iter().map(|b| b.as_ref().map(|body| Order::new(&body.cfg))).collect();
    let order = |frame: u32| orders[program.frames[frame as usize].function].as_ref();
    // A call is between what is before it and what is behind it.
    let mut keys: Vec<Vec<u32>> = Vec::with_capacity(program.spots.len());
    let prefix = |keys: &[Vec<u32>], frame: u32| match program.frames[frame as usize].call {
        NONE => Vec::new(),
        call => keys[call as usize].clone(),
    };
    for s in 0..program.spots.len() as u32 {
        let spot = program.spot(s);
        let mut key = prefix(&keys, spot.frame);
        key.extend([order(spot.frame).and_then(|o| o.block(spot.block as usize)).unwrap_or(NONE), spot.from]);
        keys.push(key);
    }
    let edges: Vec<Vec<u32>> = program
        .edges
        .iter()
        .map(|e| {
            let (from, to) = (program.spot(e.from), program.spot(e.to));
            let plain = matches!(from.end, End::Terminator) && from.frame == to.frame;
            let number = order(from.frame).filter(|_| plain);
            match number.and_then(|o| o.target(from.block as usize, to.block as usize)) {
                Some(node) => {
                    let mut key = prefix(&keys, to.frame);
                    key.extend([node, to.from]);
                    key
                }
                None => keys[e.to as usize].clone(),
            }
        })
        .collect();
    let mut all: Vec<&[u32]> = keys.iter().chain(&edges).map(Vec::as_slice).collect();
    all.sort_unstable();
    all.dedup();
    let number = |key: &Vec<u32>| all.binary_search(&key.as_slice()).unwrap_or(0) as u32;
    (keys.iter().map(number).collect(), edges.iter().map(number).collect())
}
