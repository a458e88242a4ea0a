//! The machine: its name, its processors, its wall clock, its random bytes.

use std::io;
use std::mem::MaybeUninit;

use crate::errno::{check, retry};

/// The host's name, as `$hostname` shows it.
pub fn hostname() -> io::Result<String> {
    // Linux allows 64 bytes.
    let mut buffer = [0u8; 256];
    // SAFETY: pointer and length describe one live array; the last byte stays zero whatever the call writes.
    check(unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) })?;
    let end = buffer
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(buffer.len());
    Ok(String::from_utf8_lossy(&buffer[..end]).into_owned())
}

/// The processors online, at least 1: what `worker_processes auto` counts.
pub fn cpu_count() -> usize {
    // SAFETY: the call takes an integer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) })
        .unwrap_or(1)
        .max(1)
}

/// Processor time that this thread has used, in nanoseconds; 0 if the kernel does not tell.
pub fn thread_cpu_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer outlives the call, which writes one timespec.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    if told != 0 {
        return 0;
    }
    // SAFETY: the call filled the structure, which was zeroed before; it is integers.
    let time = unsafe { time.assume_init() };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Fills `bytes` from the kernel's random source.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        filled += retry(|| {
            // SAFETY: pointer and length describe one live array.
            let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
            usize::try_from(got).map_err(|_| io::Error::last_os_error())
        })?;
    }
    Ok(())
}

/// A moment on the wall clock of the machine's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    pub hour: i32,
    pub minute: i32,
    /// 0 to 60.
    pub second: i32,
    /// 0 is Sunday.
    pub weekday: i32,
    /// 0 to 365.
    pub day_of_year: i32,
    /// Seconds east of Greenwich.
    pub offset: i32,
}

/// The local form of seconds since 1970. It may read the time zone's file: call it once a second, not once a request.
pub fn local_time(seconds: i64) -> io::Result<LocalTime> {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    let seconds: libc::time_t = seconds;
    // SAFETY: both pointers outlive the call.
    if unsafe { libc::localtime_r(&raw const seconds, parts.as_mut_ptr()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call filled the structure, which was zeroed before; it is integers and one pointer that is not used.
    let parts = unsafe { parts.assume_init() };
    Ok(LocalTime {
        year: parts.tm_year.saturating_add(1900),
        month: parts.tm_mon + 1,
        day: parts.tm_mday,
        hour: parts.tm_hour,
        minute: parts.tm_min,
        second: parts.tm_sec,
        weekday: parts.tm_wday,
        day_of_year: parts.tm_yday,
        offset: i32::try_from(parts.tm_gmtoff).unwrap_or(0),
    })
}

/// Bytes that a formatted time may have.
const FORMATTED_MAX: usize = 512;

/// Seconds since 1970 in the form of `strftime`, in the machine's time zone or in Greenwich's. `None`: the form has a
/// zero byte, or gives nothing, or too much.
pub fn formatted_time(form: &[u8], seconds: i64, local: bool) -> Option<Vec<u8>> {
    let form = std::ffi::CString::new(form).ok()?;
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    let seconds: libc::time_t = seconds;
    let broken_down = match local {
        // SAFETY: both pointers outlive the call.
        true => unsafe { libc::localtime_r(&raw const seconds, parts.as_mut_ptr()) },
        // SAFETY: the same.
        false => unsafe { libc::gmtime_r(&raw const seconds, parts.as_mut_ptr()) },
    };
    if broken_down.is_null() {
        return None;
    }
    let mut buffer = [0_u8; FORMATTED_MAX];
    // SAFETY: the form ends with a zero byte, the call above filled the structure, whose zone's name the C library keeps,
    // and pointer and length describe one live array.
    let length = unsafe {
        libc::strftime(
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            form.as_ptr(),
            parts.as_ptr(),
        )
    };
    (length > 0).then(|| buffer[..length].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_agrees_with_its_offset() {
        let moment = 1_700_000_000 - 1_700_000_000 % 86_400;
        let local = local_time(moment).unwrap();
        let seconds =
            i64::from(local.hour) * 3600 + i64::from(local.minute) * 60 + i64::from(local.second);
        assert_eq!(seconds, i64::from(local.offset).rem_euclid(86_400));
        assert_eq!((local.year, local.month), (2023, 11));
        assert!(local_time(i64::MAX).is_err());
    }

    #[test]
    fn times_have_forms() {
        let text = |form: &str| formatted_time(form.as_bytes(), 0, false).map(String::from_utf8);
        assert_eq!(
            text("%A, %d-%b-%Y %Z"),
            Some(Ok("Thursday, 01-Jan-1970 GMT".into()))
        );
        assert_eq!(text(""), None);
        assert_eq!(text("a\0b"), None);
        assert_eq!(text(&"x".repeat(FORMATTED_MAX)), None);
    }

    #[test]
    fn a_thread_s_time_grows_as_it_works() {
        let before = thread_cpu_ns();
        let mut sum = 0_u64;
        while thread_cpu_ns() < before + 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }

    #[test]
    fn random_bytes_fill_the_array_and_differ() {
        let (mut first, mut second) = ([0; 300], [0; 300]);
        random(&mut first).unwrap();
        random(&mut second).unwrap();
        assert_ne!(first, second);
        assert!(first[284..].iter().any(|&byte| byte != 0));
    }

    #[test]
    fn the_machine_has_a_name_and_a_processor() {
        assert!(!hostname().unwrap().is_empty());
        assert!(cpu_count() >= 1);
    }
}
