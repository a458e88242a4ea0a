//! The resolver against a name server of the test's own.

use super::*;
use std::net::UdpSocket;
use std::sync::atomic::AtomicUsize;

/// A name server that answers each question with what `answer` adds to it, and counts them; it ends with the test.
fn name_server(
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("its address");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            counted.fetch_add(1, Relaxed);
            let _ = socket.send_to(&answer(&buffer[..length]), client);
        }
    });
    (address, count)
}

/// The question as a response with this code and these records: kind and data.
fn response(query: &[u8], code: u8, records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = query.to_vec();
    bytes[2] |= 0x80;
    bytes[3] |= code;
    bytes[7] = records.len() as u8;
    for (kind, data) in records {
        bytes.extend_from_slice(&[0xc0, 12, 0, *kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        bytes.extend_from_slice(data);
    }
    bytes
}

/// The kind that a query asks for.
fn kind(query: &[u8]) -> u8 {
    query[query.len() - 3]
}

fn resolver(servers: &[SocketAddr], ipv6: bool) -> Arc<Resolver> {
    Arc::new(Resolver {
        servers: servers.to_vec(),
        valid: None,
        ipv4: true,
        ipv6,
        turn: AtomicUsize::default(),
        names: Mutex::default(),
    })
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(found) => {
            let all: Vec<_> = found.addresses().map(|ip| ip.to_string()).collect();
            all.join(" ")
        }
        Err(failure) => failure.to_string(),
    }
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn both_families_are_asked_and_what_is_found_is_kept() {
    let (server, count) = name_server(|query| match kind(query) {
        1 => response(query, 0, &[(1, &[192, 0, 2, 1])]),
        _ => response(query, 0, &[(28, &[0; 16])]),
    });
    let resolver = resolver(&[server], true);
    run(async {
        let found = resolver.addresses(b"A.test.", LONG).await;
        assert_eq!(shown(&found), "192.0.2.1 ::");
        let again = resolver.addresses(b"a.test", LONG).await;
        assert_eq!(shown(&again), "192.0.2.1 ::");
    });
    assert_eq!(count.load(Relaxed), 2);
}

#[test]
fn those_who_ask_at_once_share_the_answer() {
    let (server, count) = name_server(|query| response(query, 0, &[(1, &[192, 0, 2, 1])]));
    let resolver = resolver(&[server], false);
    run(async {
        let ask = || resolver.addresses(b"a.test", LONG);
        let (one, other) = tokio::join!(ask(), ask());
        assert_eq!(
            (shown(&one), shown(&other)),
            ("192.0.2.1".into(), "192.0.2.1".into())
        );
    });
    assert_eq!(count.load(Relaxed), 1);
    assert!(resolver.names().asking.is_empty());
}

#[test]
fn one_family_is_enough_and_failures_are_not_kept() {
    let (server, count) = name_server(|query| match kind(query) {
        1 if query[13] == b'a' => response(query, 0, &[(1, &[192, 0, 2, 1])]),
        _ => response(query, 3, &[]),
    });
    let resolver = resolver(&[server], true);
    run(async {
        let found = resolver.addresses(b"a.test", LONG).await;
        assert_eq!(shown(&found), "192.0.2.1");
        for _ in 0..2 {
            let none = resolver.addresses(b"b.test", LONG).await;
            assert_eq!(shown(&none), "3: Host not found");
        }
        let wrong = resolver.addresses(b"a..test", LONG).await;
        assert_eq!(shown(&wrong), "3: Host not found");
    });
    assert_eq!(count.load(Relaxed), 6);
}

#[test]
fn one_that_cannot_tell_leaves_it_to_the_next() {
    let (failing, _) = name_server(|query| response(query, 2, &[]));
    let (working, _) = name_server(|query| response(query, 0, &[(1, &[192, 0, 2, 7])]));
    let both = resolver(&[failing, working], false);
    let alone = resolver(&[failing], false);
    run(async {
        let found = both.addresses(b"a.test", LONG).await;
        assert_eq!(shown(&found), "192.0.2.7");
        let failed = alone.addresses(b"a.test", LONG).await;
        assert_eq!(shown(&failed), "2: Server failure");
    });
}

#[test]
fn what_answers_another_question_is_passed_over() {
    let (server, _) = name_server(|query| {
        let mut bytes = response(query, 0, &[(1, &[192, 0, 2, 1])]);
        bytes[0] ^= 1;
        bytes
    });
    let resolver = resolver(&[server], false);
    let outcome = run(async {
        let within = Duration::from_millis(200);
        resolver.addresses(b"a.test", within).await
    });
    assert_eq!(shown(&outcome), "110: Operation timed out");
}

#[test]
fn aliases_of_aliases_end() {
    // a.test is an alias of b.a.test, which is one of b.b.a.test, and so on.
    let (server, count) = name_server(|query| {
        let own = &[1, b'b', 0xc0, 12][..];
        response(query, 0, &[(5, own)])
    });
    let resolver = resolver(&[server], false);
    let outcome = run(async { resolver.addresses(b"a.test", LONG).await });
    assert_eq!(shown(&outcome), "3: Host not found");
    assert!(count.load(Relaxed) <= ALIASES_MAX);
}
