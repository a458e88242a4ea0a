//! The store on a real directory: entries come back whole, or not at all.

use super::*;

pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        let name = format!("gannet-store-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _fresh = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let parts = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let (folders, mut files): (Vec<_>, Vec<_>) = parts
            .map(|entry| entry.path())
            .partition(|path| path.is_dir());
        for folder in folders {
            files.extend(
                std::fs::read_dir(folder)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

const MB: u64 = 1 << 20;

pub(super) fn scan(store: &Store) {
    for part in 0..scan::PARTS {
        store.scan_part(part, |_| true);
    }
}

fn body(store: &Store, text: &[u8], memory_max: u64) -> io::Result<Vec<u8>> {
    let slot = store.find(Key::of(text)).ok_or(io::ErrorKind::NotFound)?;
    match store.fetch(&slot, memory_max, Reading::Blocking)? {
        Some(Fetched::Memory { body, .. }) => Ok(body.to_vec()),
        Some(Fetched::File { head, file }) => {
            let mut bytes = vec![0; head.body_bytes as usize];
            read_at(&file, &mut bytes, head.bytes(), Reading::Blocking)?;
            Ok(bytes)
        }
        None => Err(io::ErrorKind::WouldBlock.into()),
    }
}

#[test]
fn entries_outlive_the_process() {
    let folder = Folder::new("restart");
    let large = vec![b'x'; 300_000];
    let store = Store::new(&folder.0, MB);
    store.put(b"small", b"facts", 1, b"hello").unwrap();
    store.put(b"small", b"facts", 1, b"hello, again").unwrap();
    store.put(b"large", b"", 1, &large).unwrap();
    store.put(b"empty", b"", 2, b"").unwrap();
    for store in [store, Store::new(&folder.0, MB)] {
        if store.entries() == 0 {
            assert!(store.find_on_disk(Key::of(b"small")).is_some());
            assert!(store.find_on_disk(Key::of(b"other")).is_none());
            scan(&store);
        }
        assert_eq!(store.entries(), 3);
        for memory_max in [0, MB] {
            assert_eq!(body(&store, b"small", memory_max).unwrap(), b"hello, again");
            assert_eq!(body(&store, b"large", memory_max).unwrap(), large);
            assert_eq!(body(&store, b"empty", memory_max).unwrap(), b"");
        }
        let slot = store.find(Key::of(b"small")).unwrap();
        let fetched = store.fetch(&slot, MB, Reading::Cached).unwrap();
        if let Some(Fetched::Memory { head, .. }) = fetched {
            assert_eq!(
                (&*head.text, &*head.metadata),
                (&b"small"[..], &b"facts"[..])
            );
        }
    }
}

#[test]
fn a_broken_entry_is_never_given() {
    let folder = Folder::new("broken");
    let bytes = {
        let store = Store::new(&folder.0, MB);
        store
            .put(b"key", b"", 1, b"a body that will be broken")
            .unwrap();
        std::fs::read(&folder.files()[0]).unwrap()
    };
    let path = folder.files()[0].clone();
    let mut broken: Vec<Vec<u8>> = (0..bytes.len()).map(|cut| bytes[..cut].to_vec()).collect();
    broken.extend((0..bytes.len()).map(|at| {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        changed
    }));
    broken.push([&bytes[..], b"x"].concat());
    broken.push(vec![0; bytes.len()]);
    for broken in broken {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &broken).unwrap();
        let store = Store::new(&folder.0, MB);
        scan(&store);
        for memory_max in [0, MB] {
            assert!(body(&store, b"key", memory_max).is_err(), "{broken:?}");
        }
        assert_eq!((store.entries(), store.bytes()), (0, 0));
        assert!(folder.files().is_empty(), "it is removed");
    }
    // One that breaks while the process runs.
    let store = Store::new(&folder.0, MB);
    store.put(b"key", b"", 1, b"body").unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(body(&store, b"key", MB).is_err());
    assert!(store.find(Key::of(b"key")).is_none());
}

#[test]
fn the_size_limit_is_kept() {
    let folder = Folder::new("limit");
    let store = Store::new(&folder.0, 50_000);
    for number in 0..100u32 {
        store
            .put(&number.to_le_bytes(), b"", 1, &[0; 1000])
            .unwrap();
        assert!(store.bytes() <= 50_000);
    }
    assert!(store.evicted() >= 50 && store.entries() >= 40);
    assert_eq!(folder.files().len(), store.entries());
    let refused = store.put(b"large", b"", 1, &[0; 60_000]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(
        folder.files().len(),
        store.entries(),
        "nothing is left of it"
    );
    let kept = store.entries();
    assert_eq!(store.remove_group(1, |_| true), kept);
    assert!(folder.files().is_empty());
}

#[test]
fn what_was_left_behind_is_removed() {
    let folder = Folder::new("abandoned");
    std::fs::create_dir_all(folder.0.join("0a")).unwrap();
    let own = sys::process::own_pid();
    let live = format!("tmp-{own}-77");
    for name in [
        "tmp-2147483646-1",
        &live,
        "tmp-x",
        "notes.txt",
        "0a/notes.txt",
    ] {
        std::fs::write(folder.0.join(name), b"x").unwrap();
    }
    let store = Store::new(&folder.0, MB);
    let writer = store.writer(b"key", b"", 1).unwrap();
    drop(writer);
    assert!(!store.is_scanned());
    scan(&store);
    assert!(store.is_scanned());
    let mut names: Vec<_> = folder
        .files()
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["notes.txt", "notes.txt", &live, "tmp-x"]);
    assert!(writer::is_abandoned("tmp-1-1", 4000) && !writer::is_abandoned("tmp-1-1", 10));
}

#[test]
fn what_keep_refuses_is_dropped() {
    let folder = Folder::new("keep");
    let store = Store::new(&folder.0, MB);
    store.put(b"a", b"", 1, b"1").unwrap();
    store.put(b"b", b"", 2, b"2").unwrap();
    let store = Store::new(&folder.0, MB);
    for part in 0..scan::PARTS {
        store.scan_part(part, |head| head.group == 2);
    }
    assert_eq!((store.entries(), folder.files().len()), (1, 1));
    assert_eq!(store.remove_group(2, |slot| slot.key != Key::of(b"b")), 0);
    assert_eq!(store.remove_group(2, |_| true), 1);
    assert!(folder.files().is_empty());
}
