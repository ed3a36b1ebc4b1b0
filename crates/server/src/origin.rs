//! Where connections come from, as far as limits and delays tell them apart.
//!
//! Does not do: limits (`peers`), delays (`auth::failures`).

use std::net::{IpAddr, Ipv6Addr};

/// Where a connection comes from, as far as limits tell origins apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    /// The Unix socket, which its owner alone can open.
    Owner,
    /// An address; of IPv6 the network, which one machine has to itself.
    Address(IpAddr),
}

impl Origin {
    /// The origin of an address of TCP; `None` for one that is gone already.
    pub(crate) fn of(address: Option<IpAddr>) -> Origin {
        Origin::Address(match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V6(address)) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
            }
            Some(address) => address,
            None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        })
    }
}
