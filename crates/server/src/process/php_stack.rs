//! The calls that a PHP script is in, read out of the memory of the process that runs it: what the slow log shows, in
//! php-fpm's form. php-fpm knows where things lie because it is PHP; here it is a table of PHP's versions. The memory may
//! hold anything, so every read is bounded and may fail.

use std::fmt::Write;

/// The memory of a process that stands still.
pub trait Memory {
    /// Fills `bytes`; false if they cannot be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// Where PHP's variables are in that memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbols {
    pub executor_globals: u64,
    pub module_registry: u64,
}

/// Bytes shown of a name or path.
const NAME_MAX: usize = 1024;
/// Calls of PHP's own functions between one of the script and its place in a file.
const INTERNAL_MAX: usize = 64;
/// Modules looked at to learn the version.
const MODULES_MAX: u32 = 1024;

/// Offsets that differ between versions of PHP on 64-bit machines.
struct Layout {
    /// `ZEND_MODULE_API_NO`.
    api: u32,
    /// `zend_executor_globals.current_execute_data`.
    current: u64,
    /// `zend_op_array.filename`.
    filename: u64,
}

#[rustfmt::skip]
const LAYOUTS: &[Layout] = &[
    Layout { api: 20_200_930, current: 488, filename: 144 }, // PHP 8.0
    Layout { api: 20_210_902, current: 488, filename: 144 }, // 8.1
    Layout { api: 20_220_829, current: 488, filename: 152 }, // 8.2
    Layout { api: 20_230_831, current: 488, filename: 144 }, // 8.3
    Layout { api: 20_240_924, current: 488, filename: 168 }, // 8.4
    Layout { api: 20_250_925, current: 512, filename: 168 }, // 8.5
];

// What all of these versions have in common.
const EXECUTE_DATA_FUNCTION: u64 = 24;
const EXECUTE_DATA_CALL_INFO: u64 = 40;
const EXECUTE_DATA_PREVIOUS: u64 = 48;
const FUNCTION_NAME: u64 = 8;
const OP_LINE: u64 = 24;
const STRING_LENGTH: u64 = 16;
const STRING_BYTES: u64 = 24;
const TABLE_BUCKETS: u64 = 16;
const TABLE_USED: u64 = 24;
const BUCKET_BYTES: u64 = 32;
const VALUE_TYPE: u64 = 8;
const IS_POINTER: u8 = 13;
const MODULE_API: u64 = 4;
const MODULE_THREADED: u64 = 9;
/// Bits of a call's information: it is code of a file, and the outermost.
const CALL_CODE: u32 = 1 << 16;
const CALL_TOP: u32 = 1 << 17;

/// The innermost `depth` calls, a line each, as in php-fpm's slow log; or why they cannot be told.
pub fn backtrace(memory: &impl Memory, symbols: Symbols, depth: usize) -> Result<String, String> {
    let reader = Reader(memory);
    let layout = layout(&reader, symbols.module_registry)?;
    let current = reader.pointer(symbols.executor_globals.wrapping_add(layout.current));
    let mut call = current.ok_or("PHP's memory cannot be read")?;
    let mut lines = String::new();
    for _ in 0..depth {
        if call == 0 {
            break;
        }
        let Some(frame) = reader.frame(call) else {
            lines.push_str("(the rest cannot be read)\n");
            break;
        };
        let Some(name) = frame.name else {
            break;
        };
        let (file, line) = reader.place(frame.previous, layout);
        let file = file.as_deref().unwrap_or("unknown");
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "[0x{call:016x}] {name}() {file}:{line}");
        call = frame.previous;
    }
    match lines.is_empty() {
        true => Err("no function was being called".to_owned()),
        false => Ok(lines),
    }
}

/// What PHP's modules say of the version they were made for.
fn layout<M: Memory>(
    reader: &Reader<'_, M>,
    module_registry: u64,
) -> Result<&'static Layout, String> {
    let unreadable = || "PHP's memory cannot be read".to_owned();
    let field = |offset: u64| module_registry.wrapping_add(offset);
    let buckets = reader.pointer(field(TABLE_BUCKETS));
    let buckets = buckets.ok_or_else(unreadable)?;
    let used = reader.number(field(TABLE_USED)).ok_or_else(unreadable)?;
    let is_module = |bucket: &u64| reader.byte(bucket.wrapping_add(VALUE_TYPE)) == Some(IS_POINTER);
    let module = (0..u64::from(used.min(MODULES_MAX)))
        .map(|index| buckets.wrapping_add(index * BUCKET_BYTES))
        .find(is_module)
        .and_then(|bucket| reader.pointer(bucket))
        .ok_or_else(unreadable)?;
    let api = reader.number(module.wrapping_add(MODULE_API));
    let api = api.ok_or_else(unreadable)?;
    if reader.byte(module.wrapping_add(MODULE_THREADED)) != Some(0) {
        return Err("this PHP is built for threads".to_owned());
    }
    let mut layouts = LAYOUTS.iter();
    let known = layouts.find(|layout| layout.api == api);
    known.ok_or_else(|| format!("this version of PHP is not known (API {api})"))
}

/// A call.
struct Frame {
    /// `None`: it is the script itself, which nobody called.
    name: Option<String>,
    /// The call it was made from.
    previous: u64,
}

struct Reader<'a, M>(&'a M);

impl<M: Memory> Reader<'_, M> {
    fn frame(&self, call: u64) -> Option<Frame> {
        let function = self.pointer(call.wrapping_add(EXECUTE_DATA_FUNCTION))?;
        let previous = self.pointer(call.wrapping_add(EXECUTE_DATA_PREVIOUS))?;
        if !is_valid(function) {
            let name = Some("???".to_owned());
            return Some(Frame { name, previous });
        }
        let name = match self.pointer(function.wrapping_add(FUNCTION_NAME))? {
            0 => {
                let kind = self.number(call.wrapping_add(EXECUTE_DATA_CALL_INFO))?;
                let is_script = kind & (CALL_CODE | CALL_TOP) == CALL_CODE | CALL_TOP;
                (!is_script).then(|| "[INCLUDE_OR_EVAL]".to_owned())
            }
            name => Some(self.string(name)?),
        };
        Some(Frame { name, previous })
    }

    /// The file and line that the script is at in this call or the next one outside of it that is the script's own.
    fn place(&self, mut call: u64, layout: &Layout) -> (Option<String>, u32) {
        for _ in 0..INTERNAL_MAX {
            let function = match self.pointer(call.wrapping_add(EXECUTE_DATA_FUNCTION)) {
                Some(function) if call != 0 && is_valid(function) => function,
                _ => break,
            };
            // Functions of PHP itself have odd types.
            if self.byte(function).is_some_and(|kind| kind & 1 == 0) {
                let file = self.pointer(function.wrapping_add(layout.filename));
                let file = file.and_then(|file| self.string(file));
                let at = self.pointer(call).filter(|at| is_valid(*at));
                let line = at.and_then(|at| self.number(at.wrapping_add(OP_LINE)));
                return (file, line.unwrap_or(0));
            }
            match self.pointer(call.wrapping_add(EXECUTE_DATA_PREVIOUS)) {
                Some(previous) => call = previous,
                None => break,
            }
        }
        (None, 0)
    }

    /// A `zend_string`, without what would spoil a line of the log.
    fn string(&self, address: u64) -> Option<String> {
        if !is_valid(address) {
            return None;
        }
        let length = self.pointer(address.wrapping_add(STRING_LENGTH))?;
        let length = usize::try_from(length).ok()?.min(NAME_MAX);
        let mut bytes = vec![0; length];
        let whole = self.0.read(address.wrapping_add(STRING_BYTES), &mut bytes);
        // The name of an anonymous class or function ends with a zero byte and what only PHP needs.
        let shown = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(shown).replace(char::is_control, "?");
        whole.then_some(text)
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let mut bytes = [0];
        self.0.read(address, &mut bytes).then_some(bytes[0])
    }

    fn number(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        let read = self.0.read(address, &mut bytes);
        read.then(|| u32::from_le_bytes(bytes))
    }

    /// A pointer, or a length.
    fn pointer(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let read = self.0.read(address, &mut bytes);
        read.then(|| u64::from_le_bytes(bytes))
    }
}

/// Whether an address can be that of something of PHP's.
fn is_valid(address: u64) -> bool {
    address != 0 && address.is_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const SYMBOLS: Symbols = Symbols {
        executor_globals: 0x1000,
        module_registry: 0x2000,
    };

    /// Memory by bytes; what was not written cannot be read.
    #[derive(Default)]
    struct Toy(HashMap<u64, u8>);

    impl Toy {
        fn put(&mut self, address: u64, bytes: &[u8]) {
            let bytes = bytes.iter().copied();
            self.0.extend((address..).zip(bytes));
        }

        fn pointer(&mut self, address: u64, value: u64) {
            self.put(address, &value.to_le_bytes());
        }

        fn string(&mut self, address: u64, text: &str) {
            self.pointer(address + STRING_LENGTH, text.len() as u64);
            self.put(address + STRING_BYTES, text.as_bytes());
        }

        /// PHP 8.2 in `sleep()`, called in line 7 of /a.php.
        fn php(api: u32) -> Toy {
            let mut toy = Toy::default();
            toy.pointer(0x2000 + TABLE_BUCKETS, 0x3000);
            toy.put(0x2000 + TABLE_USED, &2_u32.to_le_bytes());
            toy.put(0x3000 + VALUE_TYPE, &[0]);
            toy.pointer(0x3000 + BUCKET_BYTES, 0x3100);
            toy.put(0x3000 + BUCKET_BYTES + VALUE_TYPE, &[IS_POINTER]);
            toy.put(0x3100 + MODULE_API, &api.to_le_bytes());
            toy.put(0x3100 + MODULE_THREADED, &[0]);
            toy.pointer(0x1000 + 488, 0x4000);
            toy.call(0x4000, 0x5000, 0x4100, 0);
            toy.put(0x5000, &[1]);
            toy.pointer(0x5000 + FUNCTION_NAME, 0x6000);
            toy.string(0x6000, "sleep");
            toy.call(0x4100, 0x5200, 0, CALL_CODE | CALL_TOP);
            toy.pointer(0x4100, 0x7000);
            toy.put(0x7000 + OP_LINE, &7_u32.to_le_bytes());
            toy.put(0x5200, &[2]);
            toy.pointer(0x5200 + FUNCTION_NAME, 0);
            toy.pointer(0x5200 + 152, 0x6100);
            toy.string(0x6100, "/a\n.php");
            toy
        }

        fn call(&mut self, at: u64, function: u64, previous: u64, info: u32) {
            self.pointer(at + EXECUTE_DATA_FUNCTION, function);
            self.put(at + EXECUTE_DATA_CALL_INFO, &info.to_le_bytes());
            self.pointer(at + EXECUTE_DATA_PREVIOUS, previous);
        }
    }

    impl Memory for Toy {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            let mut place = address;
            bytes.iter_mut().all(|byte| {
                let known = self.0.get(&place).copied();
                place = place.wrapping_add(1);
                known.map(|known| *byte = known).is_some()
            })
        }
    }

    #[test]
    fn calls_are_told_as_php_fpm_tells_them() {
        let toy = Toy::php(20_220_829);
        let expected = "[0x0000000000004000] sleep() /a?.php:7\n";
        assert_eq!(backtrace(&toy, SYMBOLS, 20).unwrap(), expected);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let unknown = "this version of PHP is not known (API 20190902)";
        let told = backtrace(&Toy::php(20_190_902), SYMBOLS, 20);
        assert_eq!(told.unwrap_err(), unknown);
        let mut threads = Toy::php(20_220_829);
        threads.put(0x3100 + MODULE_THREADED, &[1]);
        let told = backtrace(&threads, SYMBOLS, 20).unwrap_err();
        assert_eq!(told, "this PHP is built for threads");
        let nothing = backtrace(&Toy::default(), SYMBOLS, 20).unwrap_err();
        assert_eq!(nothing, "PHP's memory cannot be read");
        let mut idle = Toy::php(20_220_829);
        idle.pointer(0x1000 + 488, 0);
        let told = backtrace(&idle, SYMBOLS, 20).unwrap_err();
        assert_eq!(told, "no function was being called");
    }

    #[test]
    fn memory_that_makes_no_sense_ends_the_trace() {
        // A call that was made by itself.
        let mut circle = Toy::php(20_220_829);
        circle.pointer(0x4000 + EXECUTE_DATA_PREVIOUS, 0x4000);
        let told = backtrace(&circle, SYMBOLS, 5).unwrap();
        assert_eq!(told.lines().count(), 5);
        assert!(told.ends_with("sleep() unknown:0\n"));
        // A name that claims to be endless, one that is nowhere, and a function that is none.
        let mut endless = Toy::php(20_220_829);
        endless.pointer(0x6000 + STRING_LENGTH, u64::MAX);
        let told = backtrace(&endless, SYMBOLS, 5).unwrap();
        assert_eq!(told, "(the rest cannot be read)\n");
        let mut odd = Toy::php(20_220_829);
        odd.pointer(0x4000 + EXECUTE_DATA_FUNCTION, 3);
        let told = backtrace(&odd, SYMBOLS, 1).unwrap();
        assert_eq!(told, "[0x0000000000004000] ???() /a?.php:7\n");
    }

    #[test]
    fn any_byte_may_be_missing() {
        let toy = Toy::php(20_220_829);
        let places: Vec<u64> = toy.0.keys().copied().collect();
        for place in places {
            let mut torn = Toy(toy.0.clone());
            torn.0.remove(&place);
            // No panic; what it says is checked above.
            let _told = backtrace(&torn, SYMBOLS, 20);
        }
    }
}
