"""Which addresses are public, and which others may be permitted."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from toolcrib.errors import ConfigError
from toolcrib.net.addresses import Private, is_public, private_from

NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "2001:20::1",
    "2001:2::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
]

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "2003::1",
    "2620:4f:8000::1",
]


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_an_address_that_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address(text: str) -> None:
    assert is_public(ip_address(text))
    assert Private().permits(ip_address(text))


@pytest.mark.parametrize("text", [t for t in NOT_PUBLIC if not t.startswith("::ffff")])
def test_nothing_else_is_permitted_unless_said(text: str) -> None:
    assert not Private().permits(ip_address(text))


@pytest.mark.parametrize("text", ["::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::ffff:10.1.1.1"])
def test_a_mapped_address_is_the_address_it_maps(text: str) -> None:
    assert not Private().permits(ip_address(text))
    assert Private().permits(ip_address("::ffff:8.8.8.8"))


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "10.2.3.4", "192.168.1.1", "172.20.0.1", "100.64.9.9", "::1", "fd12::1"]
)
def test_true_permits_loopback_and_private_networks(text: str) -> None:
    assert private_from(True).permits(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "100.100.100.200",
        "fd00:ec2::254",
        "192.0.0.192",
        "168.63.129.16",
        "fe80::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
    ],
)
def test_true_does_not_permit_where_machines_get_their_credentials(text: str) -> None:
    assert not private_from(True).permits(ip_address(text))


def test_a_list_permits_its_networks_only() -> None:
    private = private_from(["10.20.0.0/16", "169.254.169.254", "fd12::/64"])
    assert private.permits(ip_address("10.20.3.4"))
    assert private.permits(ip_address("169.254.169.254"))
    assert private.permits(ip_address("fd12::5"))
    assert not private.permits(ip_address("10.21.0.1"))
    assert not private.permits(ip_address("127.0.0.1"))
    assert not private.permits(ip_address("169.254.169.253"))


def test_an_address_with_a_zone_is_never_permitted() -> None:
    assert not private_from(["fe80::/10"]).permits(ip_address("fe80::1%eth0"))


@pytest.mark.parametrize("value", ["10.0.0.0/33", "private", 1, [1], ["10.0.0.1/8"], {"a": 1}])
def test_a_wrong_setting_says_how_to_write_it(value: object) -> None:
    with pytest.raises(ConfigError, match="Write true, or a list of networks") as raised:
        private_from(value, "config.private")
    assert raised.value.key == "config.private"
