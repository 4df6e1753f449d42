// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_TEST_VPN_H_
#define SNF_NFS_TEST_VPN_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/packet/headers.h"
#include "runtime/sdk/nf_test.h"

// Two ends of a tunnel, for tests of the NF vpn.

namespace snf::vpn {

using Bytes = std::span<const std::byte>;

inline constexpr size_t kLink = EthernetHeader<std::byte>::kBytes;
inline constexpr size_t kOuter4 = 20;
inline const std::string kKey1 = "4c80cdefbb5d10da906ac73c3613a6342e443b68";
inline const std::string kKey2 =
    "abbccddef00112233445566778899aababbccddef00112233445566778899aab11223344";

inline std::string FileOf(const std::string& name, const std::string& text) {
  const std::string file = absl::StrCat(testing::TempDir(), "vpn_", ::getpid(),
                                        "_", name, ".tunnels");
  std::ofstream(file) << text;
  return file;
}

// The two ends of a tunnel between 10.1.0.0/16 and 10.2.0.0/16, A and B.
struct Ends {
  bool is_ipv6 = false;
  std::string more = "";     // of both, in the file
  std::string options = "";  // of both
  std::string name = "pair";

  std::string OptionsOf(bool is_a) const {
    const std::string a = is_ipv6 ? "2001:db8::1" : "192.0.2.1";
    const std::string b = is_ipv6 ? "2001:db8::2" : "198.51.100.1";
    const std::string inside_a = "10.1.0.0/16,fd00:1::/32";
    const std::string inside_b = "10.2.0.0/16,fd00:2::/32";
    const std::string line = absl::StrCat(
        "t local=", is_a ? a : b, " peer=", is_a ? b : a,
        " spi_in=", is_a ? "0x1000" : "0x20002000",
        " spi_out=", is_a ? "0x20002000" : "0x1000",
        " key_in=", is_a ? kKey1 : kKey2, " key_out=", is_a ? kKey2 : kKey1);
    return absl::StrCat(
        "vpn:tunnels=",
        FileOf(name + (is_a ? "_a" : "_b"),
               absl::StrCat(line, " inside=", is_a ? inside_a : inside_b,
                            " remote=", is_a ? inside_b : inside_a, " ", more,
                            "\n")),
        options);
  }
};

class Pair {
 public:
  explicit Pair(const Ends& ends = {})
      : a_(ends.OptionsOf(true)), b_(ends.OptionsOf(false)) {}
  NfTest& a() { return a_; }
  NfTest& b() { return b_; }

  // Returns the packet as A sends it to B.
  TestPacket Sealed(const std::string& packet) {
    const NfResult sent = a_.Send(packet);
    EXPECT_FALSE(sent.text.starts_with("drop")) << sent.text << ": " << packet;
    return sent.packet;
  }
  std::vector<TestPacket> Sealed(const std::string& packet, size_t packets) {
    std::vector<TestPacket> all;
    for (size_t i = 0; i < packets; ++i) all.push_back(Sealed(packet));
    return all;
  }
  std::string ToB(const TestPacket& packet) { return b_.Send(packet).text; }

 private:
  NfTest a_;
  NfTest b_;
};

// From behind A to behind B.
inline const std::string kPacket = "udp 10.1.0.5:5000 > 10.2.0.9:53 \"query\"";

// A word of a packet, by its place behind the link header.
inline be32 WordAt(const TestPacket& packet, size_t offset) {
  return LoadBe32(&packet.bytes[kLink + offset]);
}
inline uint64_t IvOf(const TestPacket& packet, size_t outer = kOuter4) {
  return uint64_t{WordAt(packet, outer + 8).host()} << 32 |
         WordAt(packet, outer + 12).host();
}

}  // namespace snf::vpn

#endif  // SNF_NFS_TEST_VPN_H_
