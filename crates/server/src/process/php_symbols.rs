//! Where PHP's variables are in the memory of a process: its binary says where they are in the file, the kernel where it
//! has put the binary.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use elf::ElfBytes;
use elf::abi;
use elf::endian::NativeEndian;

use super::php_stack::Symbols;
use sys::process::Pid;

/// A binary that is larger is not looked at.
const BINARY_MAX: u64 = 64 << 20;
/// The kernel's number for the address of the program headers, in what it tells a program at its start.
const AT_PHDR: u64 = 3;

/// What was found in the binary that was looked at last: children of a pool are of one.
#[derive(Default)]
pub struct PhpSymbols {
    last: Option<(Identity, Result<Placed, String>)>,
}

/// Device, inode, size, and time of the last change.
type Identity = (u64, u64, u64, (i64, i64));

/// Addresses as the file has them.
#[derive(Clone, Copy, Debug)]
struct Placed {
    symbols: Symbols,
    headers: u64,
}

impl PhpSymbols {
    pub fn find(&mut self, process: Pid) -> Result<Symbols, String> {
        let failed = |error: std::io::Error| {
            let reason = sys::errno::Errno(&error);
            format!("its binary cannot be read ({reason})")
        };
        let file = File::open(format!("/proc/{process}/exe")).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let identity = (
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            (metadata.mtime(), metadata.mtime_nsec()),
        );
        let known = self.last.as_ref().filter(|last| last.0 == identity);
        let placed = match known {
            Some((_, placed)) => placed.clone(),
            None if metadata.size() > BINARY_MAX => Err("its binary is too large".to_owned()),
            None => {
                let mut bytes = Vec::new();
                file.take(BINARY_MAX)
                    .read_to_end(&mut bytes)
                    .map_err(failed)?;
                placed(&bytes)
            }
        };
        self.last = Some((identity, placed.clone()));
        let placed = placed?;
        let headers = headers_of(process);
        let moved = headers.ok_or("the kernel does not tell where it is")?;
        let moved = moved.wrapping_sub(placed.headers);
        Ok(Symbols {
            executor_globals: placed.symbols.executor_globals.wrapping_add(moved),
            module_registry: placed.symbols.module_registry.wrapping_add(moved),
        })
    }
}

fn placed(binary: &[u8]) -> Result<Placed, String> {
    let unknown = |_| "its program is no binary that can be read".to_owned();
    let elf = ElfBytes::<NativeEndian>::minimal_parse(binary).map_err(unknown)?;
    let (mut executor_globals, mut module_registry) = (None, None);
    let tables = [elf.dynamic_symbol_table(), elf.symbol_table()];
    for (symbols, names) in tables.into_iter().flatten().flatten() {
        for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined()) {
            let Ok(name) = names.get_raw(symbol.st_name as usize) else {
                continue;
            };
            match name {
                b"executor_globals" => executor_globals = Some(symbol.st_value),
                b"module_registry" => module_registry = Some(symbol.st_value),
                _ => {}
            }
        }
    }
    let segments = elf.segments();
    let segments = || segments.iter().flat_map(|segments| segments.iter());
    let listed = segments().find(|segment| segment.p_type == abi::PT_PHDR);
    let covering = || {
        let place = elf.ehdr.e_phoff;
        let covers = |start: u64, size: u64| start <= place && place - start < size;
        segments()
            .filter(|segment| segment.p_type == abi::PT_LOAD)
            .find(|segment| covers(segment.p_offset, segment.p_filesz))
            .map(|segment| segment.p_vaddr.wrapping_add(place - segment.p_offset))
    };
    let headers = listed.map(|segment| segment.p_vaddr).or_else(covering);
    match (executor_globals, module_registry, headers) {
        (Some(executor_globals), Some(module_registry), Some(headers)) => Ok(Placed {
            symbols: Symbols {
                executor_globals,
                module_registry,
            },
            headers,
        }),
        _ => Err("its program does not say where PHP's variables are".to_owned()),
    }
}

/// Where the program headers are in the memory of a process.
fn headers_of(process: Pid) -> Option<u64> {
    let told = fs::read(format!("/proc/{process}/auxv")).ok()?;
    let (pairs, _) = told.as_chunks::<16>();
    let number = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    pairs
        .iter()
        .find(|pair| number(&pair[..8]) == Some(AT_PHDR))
        .and_then(|pair| number(&pair[8..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_php_is_said() {
        let mut symbols = PhpSymbols::default();
        let mut command = std::process::Command::new("/bin/cat");
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let cat = Pid(i32::try_from(child.id()).unwrap());
        // Until it is `cat` it is a copy of this test, which is large.
        while sys::process::exists(cat)
            && matches!(symbols.find(cat), Err(why) if why.contains("large"))
        {}
        for _ in 0..2 {
            let told = symbols.find(cat).unwrap_err();
            assert_eq!(told, "its program does not say where PHP's variables are");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(symbols.find(Pid(0)).is_err());
        assert!(headers_of(sys::process::own_pid()).is_some());
        for text in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01"] {
            let told = placed(text).unwrap_err();
            assert_eq!(told, "its program is no binary that can be read");
        }
    }

    #[test]
    fn any_cut_of_a_binary_is_refused_or_read() {
        let binary = fs::read("/proc/self/exe").unwrap();
        for length in (0..4096.min(binary.len())).step_by(7) {
            let _told = placed(&binary[..length]);
        }
    }
}
