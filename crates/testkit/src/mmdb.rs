//! Writes databases in the MaxMind DB format (version 2.0), so that tests need no file that somebody else made.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// A value of a record.
#[derive(Debug, Clone)]
pub enum Value {
    Text(&'static str),
    Bytes(&'static [u8]),
    Double(f64),
    Float(f32),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    I32(i32),
    Bool(bool),
    Array(Vec<Value>),
    Map(BTreeMap<&'static str, Value>),
}

use Value::{Array, Bool, Bytes, Double, Float, I32, Map, Text, U16, U32, U64, U128};

/// When the database says that it was built.
pub const BUILT: u64 = 1_577_934_245;
/// Bits of a pointer in the tree.
const RECORD_SIZE: u16 = 24;

fn map<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Map(entries.into())
}

/// The database of the tests: a city in 192.0.2.0/24 and 127.0.0.2, a country in 2001:db8::/32, a value of every kind in
/// 198.51.100.0/24.
#[must_use]
pub fn sample() -> Vec<u8> {
    let country = |code, english, french| {
        map([
            ("iso_code", Text(code)),
            ("geoname_id", U32(2_635_167)),
            ("names", map([("en", Text(english)), ("fr", Text(french))])),
        ])
    };
    let city = map([
        ("country", country("GB", "United Kingdom", "Royaume-Uni")),
        ("city", map([("names", map([("en", Text("Boxford"))]))])),
        (
            "location",
            map([
                ("latitude", Double(51.75)),
                ("longitude", Double(-1.25)),
                ("accuracy_radius", U16(100)),
            ]),
        ),
        (
            "subdivisions",
            Array(vec![
                map([("iso_code", Text("ENG"))]),
                map([("iso_code", Text("WBK"))]),
            ]),
        ),
    ]);
    let kinds = map([
        ("text", Text("é")),
        ("empty", Text("")),
        ("bytes", Bytes(b"\0*")),
        ("double", Double(1.0 / 3.0)),
        ("float", Float(-1.5)),
        ("u16", U16(65_535)),
        ("u32", U32(u32::MAX)),
        ("u64", U64(u64::MAX)),
        ("u128", U128(0xfeed)),
        ("i32", I32(-7)),
        ("true", Bool(true)),
        ("false", Bool(false)),
        ("array", Array(vec![U16(1), U16(0)])),
    ]);
    write(&[
        ("192.0.2.0", 24, city.clone()),
        ("127.0.0.2", 32, city),
        (
            "2001:db8::",
            32,
            map([("country", country("FR", "France", "France"))]),
        ),
        ("198.51.100.0", 24, kinds),
    ])
}

/// A database of networks that do not lie inside one another; those of IPv4 are kept as `::a.b.c.d`.
///
/// # Panics
///
/// If an address is none.
#[must_use]
pub fn write(networks: &[(&str, u32, Value)]) -> Vec<u8> {
    // A side of a node: nothing, a node, or a place in the data.
    #[derive(Clone, Copy)]
    enum Side {
        Nothing,
        Node(usize),
        Data(usize),
    }
    let (mut nodes, mut data) = (vec![[Side::Nothing; 2]], Vec::new());
    for (address, length, value) in networks {
        let (address, length) = match address.parse().expect("an address") {
            IpAddr::V4(address) => (u128::from(u32::from(address)), length + 96),
            IpAddr::V6(address) => (u128::from(address), *length),
        };
        let place = data.len();
        value.write(&mut data);
        let mut node = 0;
        for depth in 0..length {
            let bit = usize::from(address >> (127 - depth) & 1 == 1);
            let is_last = depth + 1 == length;
            node = match nodes[node][bit] {
                Side::Node(next) if !is_last => next,
                _ => {
                    let next = nodes.len();
                    nodes[node][bit] = match is_last {
                        true => Side::Data(place),
                        false => Side::Node(next),
                    };
                    if !is_last {
                        nodes.push([Side::Nothing; 2]);
                    }
                    next
                }
            };
        }
    }
    let mut file = Vec::new();
    for side in nodes.iter().flatten() {
        let pointer = match side {
            Side::Nothing => nodes.len(),
            Side::Node(node) => *node,
            Side::Data(place) => nodes.len() + 16 + place,
        };
        file.extend_from_slice(&(pointer as u32).to_be_bytes()[1..]);
    }
    file.extend_from_slice(&[0; 16]);
    file.extend_from_slice(&data);
    file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    metadata(nodes.len() as u32).write(&mut file);
    file
}

fn metadata(nodes: u32) -> Value {
    map([
        ("binary_format_major_version", U16(2)),
        ("binary_format_minor_version", U16(0)),
        ("build_epoch", U64(BUILT)),
        ("database_type", Text("Test")),
        ("description", map([("en", Text("A test"))])),
        ("ip_version", U16(6)),
        ("languages", Array(vec![Text("en")])),
        ("node_count", U32(nodes)),
        ("record_size", U16(RECORD_SIZE)),
    ])
}

impl Value {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Text(text) => sized(2, text.as_bytes(), out),
            Double(number) => sized(3, &number.to_be_bytes(), out),
            Bytes(bytes) => sized(4, bytes, out),
            U16(number) => sized(5, &number.to_be_bytes(), out),
            U32(number) => sized(6, &number.to_be_bytes(), out),
            Map(entries) => {
                head(7, entries.len(), out);
                for (name, value) in entries {
                    Text(name).write(out);
                    value.write(out);
                }
            }
            I32(number) => sized(8, &number.to_be_bytes(), out),
            U64(number) => sized(9, &number.to_be_bytes(), out),
            U128(number) => sized(10, &number.to_be_bytes(), out),
            Array(values) => {
                head(11, values.len(), out);
                values.iter().for_each(|value| value.write(out));
            }
            Bool(is) => head(14, usize::from(*is), out),
            Float(number) => sized(15, &number.to_be_bytes(), out),
        }
    }
}

fn sized(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    head(kind, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// The control byte: kinds above 7 have a byte of their own, and nothing here is longer than 28 + 256.
fn head(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (short, rest) = match size {
        0..29 => (size as u8, None),
        _ => (29, Some((size - 29) as u8)),
    };
    match kind {
        0..8 => out.push(kind << 5 | short),
        _ => out.extend_from_slice(&[short, kind - 7]),
    }
    out.extend(rest);
}
