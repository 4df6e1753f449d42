// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_TEST_IDS_H_
#define SNF_NFS_TEST_IDS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/sdk/nf_test.h"

namespace snf {

// A file of rules for one test.
inline std::string RuleFile(const std::string& rules) {
  static int number = 0;
  const std::string file = testing::TempDir() + "ids_" +
                           std::to_string(::getpid()) + "_" +
                           std::to_string(++number) + ".rules";
  std::ofstream(file) << rules;
  return file;
}
inline std::string Ids(const std::string& rules,
                       const std::string& options = "") {
  return "ids:cache=off,rules=" + RuleFile(rules) +
         (options.empty() ? "" : "," + options);
}

inline const std::string kThere = "tcp 10.0.0.1:5000 > 192.0.2.9:80 ";
inline const std::string kBack = "tcp 192.0.2.9:80 > 10.0.0.1:5000 ";

inline std::string HexText(const std::string& text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    hex += kDigits[static_cast<unsigned char>(c) / 16];
    hex += kDigits[static_cast<unsigned char>(c) % 16];
  }
  return "x'" + hex + "'";
}

// A connection: its handshake, and then segments with right sequence numbers.
class Connection {
 public:
  static std::vector<std::string> Handshake() {
    return {kThere + "SYN seq=99", kBack + "SYN ACK seq=499 ack=100",
            kThere + "ACK seq=100 ack=500"};
  }
  std::string There(const std::string& payload) {
    return Segment(kThere, there_, payload);
  }
  std::string Back(const std::string& payload) {
    return Segment(kBack, back_, payload);
  }

 private:
  static std::string Segment(const std::string& ends, uint32_t& sequence,
                             const std::string& payload) {
    std::string text =
        ends + "ACK seq=" + std::to_string(sequence) + " " + HexText(payload);
    sequence += static_cast<uint32_t>(payload.size());
    return text;
  }
  uint32_t there_ = 100;
  uint32_t back_ = 500;
};

// How many alerts packets give.
inline uint64_t AlertsOf(const std::string& nf,
                         const std::vector<std::string>& texts) {
  NfTest test(nf);
  for (const std::string& text : texts) test.Send(text);
  return test.count("alerts");
}

inline std::vector<std::string> WithHandshake(
    std::vector<std::string> segments) {
  std::vector<std::string> all = Connection::Handshake();
  all.insert(all.end(), segments.begin(), segments.end());
  return all;
}

}  // namespace snf

#endif  // SNF_NFS_TEST_IDS_H_
