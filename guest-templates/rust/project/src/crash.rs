//! Logs the reason of a panic or of a refused allocation. Rust cannot unwind here, so a panic ends the call; without the
//! log the caller would not get the reason.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic;

use crate::wasmrt::tool::log::{log, Level};

/// Log every panic with its message and its place.
pub fn tell() {
    panic::set_hook(Box::new(|panic| log(Level::Error, &panic.to_string())));
}

#[global_allocator]
static ALLOCATOR: Told = Told;

/// The system's allocator, which logs allocations that the host's memory limit refuses.
struct Told;

impl Told {
    fn checked(at: *mut u8, size: usize) -> *mut u8 {
        if at.is_null() {
            log(Level::Error, refused(size, &mut [0; 64]));
        }
        at
    }
}

unsafe impl GlobalAlloc for Told {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::checked(unsafe { System.realloc(at, layout, size) }, size)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

/// Writes the message without allocating memory.
fn refused(size: usize, room: &mut [u8; 64]) -> &str {
    use std::io::Write;
    let mut rest = &mut room[..];
    let _ = write!(rest, "out of memory: {size} bytes more were refused");
    let left = rest.len();
    std::str::from_utf8(&room[..64 - left]).unwrap_or("out of memory")
}
