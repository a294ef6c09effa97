//! The order in which a trial executes program points.

use super::super::program::{End, NONE};
use super::super::solve::Solution;
use coop_ir::cfg::Order;

/// Returns the position of each point and of each edge: invocations with the lowest one run first, so that diverged
/// invocations reconverge as early as they can.
pub(super) fn positions(solution: &Solution) -> (Vec<u32>, Vec<u32>) {
    let program = solution.program;
    let orders: Vec<Option<Order>> =
        program.bodies.iter().map(|b| b.as_ref().map(|body| Order::new(&body.cfg))).collect();
    let order = |instance: u32| orders[program.instances[instance as usize].function].as_ref();
    // A call's points come between those before and behind the call.
    let mut keys: Vec<Vec<u32>> = Vec::with_capacity(program.points.len());
    let prefix = |keys: &[Vec<u32>], instance: u32| match program.instances[instance as usize].call {
        NONE => Vec::new(),
        call => keys[call as usize].clone(),
    };
    for s in 0..program.points.len() as u32 {
        let point = program.point(s);
        let mut key = prefix(&keys, point.instance);
        key.extend([order(point.instance).and_then(|o| o.block(point.block as usize)).unwrap_or(NONE), point.from]);
        keys.push(key);
    }
    let edges: Vec<Vec<u32>> = program
        .edges
        .iter()
        .map(|e| {
            let (from, to) = (program.point(e.from), program.point(e.to));
            let plain = matches!(from.end, End::Terminator) && from.instance == to.instance;
            let number = order(from.instance).filter(|_| plain);
            match number.and_then(|o| o.target(from.block as usize, to.block as usize)) {
                Some(node) => {
                    let mut key = prefix(&keys, to.instance);
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
