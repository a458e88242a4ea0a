//! Which addresses have a socket of their own, and which servers are behind each.

use super::model::Listener;
use crate::listen::options::Addresses;
use crate::routing::hosts::Hosts;

/// Joins the addresses with their servers. An address without options of its own on a port that has a wildcard address
/// is left to the wildcard's socket: the system would not open both.
pub fn listeners(addresses: Addresses, hosts: Vec<Option<Hosts>>) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = addresses
        .into_inner()
        .into_iter()
        .zip(hosts)
        .filter_map(|(listen, hosts)| {
            Some(Listener {
                listen,
                hosts: hosts?,
                own_socket: true,
                covers: Vec::new(),
            })
        })
        .collect();
    for index in 0..listeners.len() {
        let listen = &listeners[index].listen;
        let Some(ip) = listen.address.ip().filter(|ip| !ip.is_unspecified()) else {
            continue;
        };
        let port = listen.address.port();
        let wildcard = |other: &Listener| {
            other.listen.address.port() == port
                && (other.listen.address.ip())
                    .is_some_and(|other| other.is_unspecified() && other.is_ipv4() == ip.is_ipv4())
        };
        if !listen.bind
            && let Some(wildcard) = listeners.iter().position(wildcard)
        {
            listeners[index].own_socket = false;
            listeners[wildcard].covers.push((ip, index));
        }
    }
    listeners
}
