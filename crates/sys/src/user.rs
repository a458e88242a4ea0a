//! Users and groups, and becoming one of them.

use std::ffi::{CStr, CString};
use std::io;

use crate::errno::check;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uid(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gid(pub u32);

/// An entry of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: Uid,
    pub gid: Gid,
}

/// The buffer for one entry starts here and doubles up to the limit; a group of thousands of members is large.
const ENTRY_BYTES: usize = 4 << 10;
const MAX_ENTRY_BYTES: usize = 4 << 20;

/// Looks a user up by name; `None` when there is none.
pub fn user(name: &str) -> io::Result<Option<User>> {
    let name = CString::new(name)?;
    lookup(|buffer| {
        // SAFETY: passwd is pointers and integers; all zero is valid until the call fills it.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the name is terminated, the buffer has the length stated, and all outlive the call.
        let code = unsafe {
            libc::getpwnam_r(name.as_ptr(), &raw mut entry, start, length, &raw mut found)
        };
        let made = || {
            // SAFETY: the call succeeded, so pw_name is a terminated string inside the buffer, which is still borrowed.
            let name = unsafe { CStr::from_ptr(entry.pw_name) }
                .to_string_lossy()
                .into_owned();
            User {
                name,
                uid: Uid(entry.pw_uid),
                gid: Gid(entry.pw_gid),
            }
        };
        (code, (!found.is_null()).then(made))
    })
}

/// Looks a group up by name; `None` when there is none.
pub fn group(name: &str) -> io::Result<Option<Gid>> {
    let name = CString::new(name)?;
    lookup(|buffer| {
        // SAFETY: group is pointers and integers; all zero is valid until the call fills it.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the name is terminated, the buffer has the length stated, and all outlive the call.
        let code = unsafe {
            libc::getgrnam_r(name.as_ptr(), &raw mut entry, start, length, &raw mut found)
        };
        (code, (!found.is_null()).then_some(Gid(entry.gr_gid)))
    })
}

/// Calls with a larger and larger buffer until the entry fits.
fn lookup<T>(mut call: impl FnMut(&mut [u8]) -> (i32, Option<T>)) -> io::Result<Option<T>> {
    let mut size = ENTRY_BYTES;
    loop {
        match call(&mut vec![0; size]) {
            (0, found) => return Ok(found),
            // What the databases of different systems answer for "no such entry".
            (libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Ok(None),
            (libc::EINTR, _) => {}
            (libc::ERANGE, _) if size < MAX_ENTRY_BYTES => size *= 2,
            (code, _) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// A user's home directory; `None` when there is no such user or it is not UTF-8.
pub fn home(name: &str) -> io::Result<Option<String>> {
    let name = CString::new(name)?;
    let found = lookup(|buffer| {
        // SAFETY: passwd is pointers and integers; all zero is valid until the call fills it.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the name is terminated, the buffer has the length stated, and all outlive the call.
        let code = unsafe {
            libc::getpwnam_r(name.as_ptr(), &raw mut entry, start, length, &raw mut found)
        };
        let made = || {
            // SAFETY: the call succeeded, so pw_dir is a terminated string inside the buffer, which is still borrowed.
            let home = unsafe { CStr::from_ptr(entry.pw_dir) };
            home.to_str().ok().map(str::to_owned)
        };
        (code, (!found.is_null()).then(made))
    })?;
    Ok(found.flatten())
}

/// All groups of a user, `group` among them.
pub fn groups_of(user: &User, group: Gid) -> io::Result<Vec<Gid>> {
    let name = CString::new(user.name.as_str())?;
    let mut room = 64;
    loop {
        let mut groups: Vec<libc::gid_t> = vec![0; room];
        let mut count = libc::c_int::try_from(room).map_err(io::Error::other)?;
        // SAFETY: the name is terminated, the array has as many elements as the count says, and all outlive the call.
        let result = unsafe {
            libc::getgrouplist(name.as_ptr(), group.0, groups.as_mut_ptr(), &raw mut count)
        };
        if result >= 0 {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return Ok(groups.into_iter().map(Gid).collect());
        }
        if room >= MAX_GROUPS {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        room *= 4;
    }
}

/// What Linux allows a process.
const MAX_GROUPS: usize = 65536;

pub fn effective_uid() -> Uid {
    // SAFETY: the call takes nothing and cannot fail.
    Uid(unsafe { libc::geteuid() })
}

/// Which call failed while becoming another user, with what: `setgid(33)`.
#[derive(Debug)]
pub struct BecomeError {
    pub call: String,
    pub source: io::Error,
}

/// What of root's rights stays with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    Nothing,
    /// Connecting from addresses that are not the machine's: CAP_NET_RAW.
    ForeignAddresses,
}

/// Gives up root for this user, for good: the group, the user's other groups, then the user.
pub fn become_user(user: &User, group: Gid, keeps: Keeps) -> Result<(), BecomeError> {
    let failed = |call: String| move |source| BecomeError { call, source };
    // SAFETY: the call takes an integer.
    check(unsafe { libc::setgid(group.0) }).map_err(failed(format!("setgid({})", group.0)))?;
    let name = CString::new(user.name.as_str()).map_err(|error| BecomeError {
        call: "initgroups()".to_owned(),
        source: error.into(),
    })?;
    // SAFETY: the name is a live, terminated string.
    check(unsafe { libc::initgroups(name.as_ptr(), group.0) })
        .map_err(failed(format!("initgroups({}, {})", user.name, group.0)))?;
    if keeps == Keeps::ForeignAddresses {
        let keep: libc::c_ulong = 1;
        // SAFETY: the call takes integers.
        check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, keep, 0, 0, 0) })
            .map_err(failed("prctl(PR_SET_KEEPCAPS, 1)".to_owned()))?;
    }
    // SAFETY: the call takes an integer.
    check(unsafe { libc::setuid(user.uid.0) })
        .map_err(failed(format!("setuid({})", user.uid.0)))?;
    if keeps == Keeps::ForeignAddresses {
        keep_raw_sockets().map_err(failed("capset()".to_owned()))?;
    }
    Ok(())
}

/// Of the rights that are kept over a change of the user, only that of raw sockets and foreign addresses stays.
fn keep_raw_sockets() -> io::Result<()> {
    /// The form of 64 capabilities in two halves.
    const VERSION: u32 = 0x2008_0522;
    const NET_RAW: u32 = 1 << 13;
    let header: [u32; 2] = [VERSION, 0];
    // Effective, permitted, inheritable; the lower half first.
    let sets: [u32; 6] = [NET_RAW, NET_RAW, 0, 0, 0, 0];
    // SAFETY: both arrays have the layout of the structures of this version, outlive the call, and are only read.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    check(libc::c_int::try_from(result).unwrap_or(-1)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nobody_else() {
        let root = user("root").unwrap().unwrap();
        assert_eq!(
            (root.name.as_str(), root.uid, root.gid),
            ("root", Uid(0), Gid(0))
        );
        assert_eq!(group("root").unwrap(), Some(Gid(0)));
        assert_eq!(user("no-such-user-here").unwrap(), None);
        assert_eq!(group("no-such-group-here").unwrap(), None);
        assert!(user("a\0b").is_err());
        let root = user("root").unwrap().unwrap();
        assert!(groups_of(&root, Gid(12345)).unwrap().contains(&Gid(12345)));
    }
}
