//! The functions that JavaScript calls.
//!
//! A caller asks [`coop_alloc`] for room, writes the request's JSON and behind it the file's bytes, and calls [`coop_answer`].
//! The answer's JSON is at [`coop_json`], a lowered module at [`coop_spirv`], until the next call. A bug of ours traps; its
//! message is then at [`coop_panic`], and the instance must not be used any more.
#![allow(unsafe_code)]

use crate::{Answer, Problem, Request, answer};
use serde_json::json;
use std::cell::RefCell;
use std::panic;

#[derive(Default)]
struct State {
    input: Vec<u8>,
    json: Vec<u8>,
    spirv: Vec<u8>,
    panic: Vec<u8>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Makes room for a request and a file, and returns where; what was there is gone.
#[unsafe(no_mangle)]
pub extern "C" fn coop_alloc(bytes: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input = vec![0; bytes];
        state.input.as_mut_ptr()
    })
}

/// Answers what was written: a request of so many bytes, and the file behind it.
#[unsafe(no_mangle)]
pub extern "C" fn coop_answer(request: usize) {
    panic::set_hook(Box::new(|info| {
        let message = info.to_string().into_bytes();
        STATE.with(|state| {
            if let Ok(mut state) = state.try_borrow_mut() {
                state.panic = message;
            }
        });
    }));
    // Nothing is borrowed while the answer is made: the hook of a panic needs the state.
    let input = STATE.with_borrow_mut(|state| std::mem::take(&mut state.input));
    let (request, file) = input.split_at(request.min(input.len()));
    let Answer { json, spirv } = match serde_json::from_slice::<Request>(request) {
        Ok(request) => answer(&request, file),
        Err(error) => {
            let problem = Problem::new("request", error.to_string());
            Answer { json: json!({ "problems": [problem.json()] }), spirv: Vec::new() }
        }
    };
    STATE.with_borrow_mut(|state| {
        state.json = json.to_string().into_bytes();
        state.spirv = spirv;
    });
}

/// Returns where the answer's JSON is.
#[unsafe(no_mangle)]
pub extern "C" fn coop_json() -> *const u8 {
    STATE.with_borrow(|state| state.json.as_ptr())
}

/// Returns the bytes of the answer's JSON.
#[unsafe(no_mangle)]
pub extern "C" fn coop_json_len() -> usize {
    STATE.with_borrow(|state| state.json.len())
}

/// Returns where the lowered module is.
#[unsafe(no_mangle)]
pub extern "C" fn coop_spirv() -> *const u8 {
    STATE.with_borrow(|state| state.spirv.as_ptr())
}

/// Returns the bytes of the lowered module; 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn coop_spirv_len() -> usize {
    STATE.with_borrow(|state| state.spirv.len())
}

/// Returns where the message of a panic is.
#[unsafe(no_mangle)]
pub extern "C" fn coop_panic() -> *const u8 {
    STATE.with_borrow(|state| state.panic.as_ptr())
}

/// Returns the bytes of the message of a panic; 0 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn coop_panic_len() -> usize {
    STATE.with_borrow(|state| state.panic.len())
}
