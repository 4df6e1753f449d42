// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/lease_member.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "platform/hosts/host_stream.h"

namespace snf {
namespace {

const absl::Status kNobody =
    absl::UnavailableError("failed to connect to all addresses");

TEST(LeaseMember, NamesTheAddressThatHasNoManager) {
  EXPECT_EQ(
      LeaseMember::WhyNoManager(LeaseAddress::OfSocket("/nowhere"), kNobody),
      "unix:/nowhere: no manager leads there");
  EXPECT_EQ(LeaseMember::WhyNoManager(LeaseAddress::OfSocket("/nowhere"),
                                      absl::DeadlineExceededError("late\n")),
            "unix:/nowhere: late?");
}

TEST(LeaseMember, SaysWhyAPortCannotBeReached) {
  // A port without a listener.
  std::string address;
  {
    const int listener = *HostStream::Listen("127.0.0.1:0");
    address = HostStream::AddressOf(listener, false);
    close(listener);
  }
  EXPECT_EQ(LeaseMember::WhyNoManager({.target = address, .tls = LeaseTls()},
                                      kNobody),
            address + ": Connection refused");
}

}  // namespace
}  // namespace snf
