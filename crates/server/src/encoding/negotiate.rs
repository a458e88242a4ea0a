//! Which content coding a client gets (RFC 9110 section 12.5.3): pure, over the value of Accept-Encoding and what the
//! server has on offer. Where gzip is all there is, the answers are nginx's.

use wire::fields::accept_encoding::{Quality, mention, quality};

/// A content coding that responses can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

/// How many codings there are.
pub const CODINGS: usize = 3;

impl Coding {
    pub const ALL: [Coding; CODINGS] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// The name in Accept-Encoding and Content-Encoding.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The name of the coding over a dictionary (RFC 9842), where there is one.
    #[must_use]
    pub const fn with_dictionary(self) -> Option<&'static str> {
        match self {
            Coding::Gzip => None,
            Coding::Brotli => Some("dcb"),
            Coding::Zstd => Some("dcz"),
        }
    }

    /// What the name of a compressed copy ends in.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Coding::Gzip => ".gz",
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
        }
    }

    /// The coding that a name means, in any case.
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Coding> {
        let same = |coding: &Coding| coding.as_str().as_bytes().eq_ignore_ascii_case(name);
        Coding::ALL.into_iter().find(same)
    }
}

/// A set of codings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers(u8);

impl Offers {
    pub const NONE: Offers = Offers(0);
    pub const GZIP: Offers = Offers::NONE.with(Coding::Gzip);

    #[must_use]
    pub const fn with(self, coding: Coding) -> Offers {
        Offers(self.0 | 1 << coding as u8)
    }

    /// What is in either.
    #[must_use]
    pub const fn or(self, other: Offers) -> Offers {
        Offers(self.0 | other.0)
    }

    #[must_use]
    pub const fn without(self, coding: Coding) -> Offers {
        Offers(self.0 & !(1 << coding as u8))
    }

    #[must_use]
    pub const fn contains(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// `compression_order`: the codings as the server prefers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order(pub [Coding; CODINGS]);

impl Default for Order {
    fn default() -> Order {
        Order([Coding::Zstd, Coding::Brotli, Coding::Gzip])
    }
}

/// The codings on offer that a client takes, the best first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ranked {
    codings: [Option<Coding>; CODINGS],
    next: usize,
}

impl Iterator for Ranked {
    type Item = Coding;

    fn next(&mut self) -> Option<Coding> {
        let coding = self.codings.get(self.next).copied().flatten();
        self.next += 1;
        coding
    }
}

/// The codings on offer that the client takes, by its qualities, equal ones in the server's order. Where only gzip is on
/// offer, the answers are nginx's: a `*` takes nothing, and a gzip of any quality above 0 is better than none. Otherwise
/// a `*` speaks for what is not named, and a coding that is worth less to the client than none at all is left out.
#[must_use]
pub fn ranked(accept_encoding: &[u8], offers: Offers, order: Order) -> Ranked {
    let mut ranked = Ranked::default();
    if offers == Offers::GZIP {
        if quality(accept_encoding, Coding::Gzip.as_str()) > 0 {
            ranked.codings[0] = Some(Coding::Gzip);
        }
        return ranked;
    }
    if offers.is_empty() {
        return ranked;
    }
    let others = mention(accept_encoding, "*").unwrap_or(0);
    let none = mention(accept_encoding, "identity").unwrap_or(0);
    let mut taken: [(Quality, Option<Coding>); CODINGS] = [(0, None); CODINGS];
    let mut count = 0;
    for coding in order
        .0
        .into_iter()
        .filter(|&coding| offers.contains(coding))
    {
        let quality = mention(accept_encoding, coding.as_str()).unwrap_or(others);
        if quality > 0 && quality >= none {
            taken[count] = (quality, Some(coding));
            count += 1;
        }
    }
    // The sort is stable, so that equal ones stay in the server's order.
    taken[..count].sort_by_key(|&(quality, _)| std::cmp::Reverse(quality));
    ranked.codings = taken.map(|(_, coding)| coding);
    ranked
}

/// The coding that a client gets over a dictionary that it has. It must name it, and not prefer another one; a `*` does
/// not mean it.
#[must_use]
pub fn with_dictionary(accept_encoding: &[u8], offers: Offers, order: Order) -> Option<Coding> {
    let offered = || {
        order
            .0
            .into_iter()
            .filter(|&coding| offers.contains(coding))
    };
    let others = mention(accept_encoding, "*").unwrap_or(0);
    let plain = offered().map(|coding| mention(accept_encoding, coding.as_str()).unwrap_or(others));
    let none = mention(accept_encoding, "identity").unwrap_or(0);
    let least = plain.max()?.max(none).max(1);
    let quality = |coding: Coding| mention(accept_encoding, coding.with_dictionary()?);
    let mut best: Option<(Quality, Coding)> = None;
    for coding in offered() {
        match quality(coding) {
            Some(quality) if quality >= least && best.is_none_or(|(most, _)| quality > most) => {
                best = Some((quality, coding));
            }
            _ => {}
        }
    }
    best.map(|(_, coding)| coding)
}

/// The coding that a client gets, if any.
#[must_use]
pub fn choose(accept_encoding: &[u8], offers: Offers, order: Order) -> Option<Coding> {
    ranked(accept_encoding, offers, order).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offers: Offers, order: Order, rows: &[(&str, &str)]) {
        for (value, expected) in rows {
            let names = ranked(value.as_bytes(), offers, order).map(Coding::as_str);
            let names: Vec<&str> = names.collect();
            assert_eq!(names.join(" "), *expected, "{value:?} of {offers:?}");
            let first = choose(value.as_bytes(), offers, order).map(Coding::as_str);
            assert_eq!(first, names.first().copied(), "{value:?}");
        }
    }

    #[test]
    fn gzip_alone_is_chosen_as_nginx_chooses_it() {
        check(
            Offers::GZIP,
            Order::default(),
            &[
                ("", ""),
                ("gzip", "gzip"),
                ("*", ""),
                ("br", ""),
                ("*;q=0, gzip", "gzip"),
                ("gzip;q=0.1, identity", "gzip"),
                ("gzip;q=0.1, identity;q=0.5", "gzip"),
                ("identity;q=0", ""),
                ("gzip;q=0, *", ""),
                ("gzip;q=0", ""),
            ],
        );
    }

    #[test]
    fn the_client_s_qualities_come_before_the_server_s_order() {
        let all = Offers::GZIP.with(Coding::Brotli).with(Coding::Zstd);
        check(
            all,
            Order::default(),
            &[
                ("", ""),
                ("gzip, deflate, br, zstd", "zstd br gzip"),
                ("gzip, deflate, br", "br gzip"),
                ("gzip", "gzip"),
                ("GZIP;q=1.0, BR;q=0.9", "gzip br"),
                ("gzip;q=0.5, br;q=0.5, zstd;q=0.4", "br gzip zstd"),
                ("br;q=0, *", "zstd gzip"),
                ("*", "zstd br gzip"),
                ("*;q=0", ""),
                ("*;q=0, gzip", "gzip"),
                ("gzip, *;q=0.1", "gzip zstd br"),
                ("identity", ""),
                ("identity, *", "zstd br gzip"),
                ("identity;q=0", ""),
                ("identity;q=0, *;q=0.5", "zstd br gzip"),
                ("gzip;q=0.5, br;q=0.3, identity;q=0.4", "gzip"),
                ("gzip;q=0.5, br;q=0.3, identity", ""),
                ("br;q=2, gzip", "gzip"),
                ("br;q=0, br", ""),
                ("deflate, x-gzip", ""),
                ("dcb, dcz", ""),
            ],
        );
    }

    #[test]
    fn the_server_s_order_settles_equal_qualities() {
        let all = Offers::GZIP.with(Coding::Brotli).with(Coding::Zstd);
        let order = Order([Coding::Brotli, Coding::Gzip, Coding::Zstd]);
        check(all, order, &[("gzip, br, zstd", "br gzip zstd")]);
        let two = Offers::NONE.with(Coding::Brotli).with(Coding::Zstd);
        check(two, order, &[("gzip, br, zstd", "br zstd"), ("gzip", "")]);
        check(Offers::NONE, order, &[("gzip", ""), ("*", "")]);
    }

    #[test]
    fn a_dictionary_is_used_where_the_client_names_the_coding() {
        let all = Offers::GZIP.with(Coding::Brotli).with(Coding::Zstd);
        for (value, offers, expected) in [
            ("gzip, deflate, br, zstd, dcb, dcz", all, Some(Coding::Zstd)),
            ("gzip, br, dcb", all, Some(Coding::Brotli)),
            ("dcz", all, Some(Coding::Zstd)),
            ("dcz;q=0, dcb", all, Some(Coding::Brotli)),
            ("dcz;q=0.5, dcb;q=0.7", all, Some(Coding::Brotli)),
            ("br, dcb;q=0.5", all, None),
            ("*", all, None),
            ("*, dcb", all, Some(Coding::Brotli)),
            ("*, dcb;q=0.5", all, None),
            ("identity, dcb;q=0.5", all, None),
            ("dcb, dcz", Offers::GZIP, None),
            ("dcb, dcz", Offers::NONE, None),
            (
                "dcb, dcz",
                Offers::NONE.with(Coding::Brotli),
                Some(Coding::Brotli),
            ),
            ("", all, None),
            ("dcz;q=0", all, None),
        ] {
            let found = with_dictionary(value.as_bytes(), offers, Order::default());
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn names_are_read_in_any_case() {
        for coding in Coding::ALL {
            assert_eq!(Coding::of(coding.as_str().as_bytes()), Some(coding));
        }
        assert_eq!(Coding::of(b"GZip"), Some(Coding::Gzip));
        assert_eq!(Coding::of(b"x-gzip"), None);
        assert!(!Offers::GZIP.contains(Coding::Zstd));
    }
}
