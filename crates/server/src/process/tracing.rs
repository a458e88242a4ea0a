//! Backtraces of PHP's children for the slow log. A child is asked to stop, looked at when it has, and let go; meanwhile
//! everything else goes on. Only its parent may do that, so it is done here.

use super::php_stack::{self, Memory};
use super::php_symbols::PhpSymbols;
use sys::process::Pid;

/// Lines of a backtrace; `request_slowlog_trace_depth` counts up to here.
const DEPTH_MAX: usize = 1000;

/// The children that were asked to stop.
#[derive(Default)]
pub struct Tracing {
    asked: Vec<(Pid, usize)>,
    symbols: PhpSymbols,
}

struct Stopped(Pid);

impl Memory for Stopped {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        sys::trace::read(self.0, address, bytes).is_ok()
    }
}

impl Tracing {
    /// Asks a child to stop; `stopped` gives its backtrace.
    pub fn begin(&mut self, child: Pid, depth: u32) -> Result<(), String> {
        if self.asked.iter().any(|(asked, _)| *asked == child) {
            return Err("it is being looked at".to_owned());
        }
        sys::trace::stop(child)
            .map_err(|error| format!("ptrace() failed ({})", sys::errno::Errno(&error)))?;
        let depth = usize::try_from(depth).unwrap_or(DEPTH_MAX);
        self.asked.push((child, depth.min(DEPTH_MAX)));
        Ok(())
    }

    /// A child stands still: looks at it, and lets it go on.
    pub fn stopped(&mut self, child: Pid, signal: Option<i32>) -> Option<Result<String, String>> {
        let index = self.asked.iter().position(|(asked, _)| *asked == child)?;
        let (_, depth) = self.asked.swap_remove(index);
        let symbols = self.symbols.find(child);
        let calls =
            symbols.and_then(|symbols| php_stack::backtrace(&Stopped(child), symbols, depth));
        // It fails only for a child that was killed meanwhile.
        let _gone = sys::trace::release(child, signal);
        Some(calls)
    }

    /// A child has ended.
    pub fn forget(&mut self, child: Pid) {
        self.asked.retain(|(asked, _)| *asked != child);
    }
}
