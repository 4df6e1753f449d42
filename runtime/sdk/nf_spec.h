// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_SPEC_H_
#define SNF_RUNTIME_SDK_NF_SPEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/nf.h"

namespace snf {

// What units run: an NF with its options, or a chain of such (Serpens §III-C,
// Fig. 8: chain, distribute, aggregate). As text:
//
//     nat:ip=192.0.2.1,ports=1024-65535                  one NF
//     firewall(rules=fw.txt) | {suspicious: ids, clean: monitor} | nat
//
//     chain  = stage { "|" stage }
//     stage  = nf | "{" arm { "," arm } "}"
//     arm    = label ":" [ chain ]
//     nf     = name [ "(" key "=" value { "," key "=" value } ")" ]
//
// Braces follow an NF and distribute by what it found: a packet takes the arm
// of its label (NetworkFunction::labels()), or that of "*", or else none; after
// the braces the arms are together again. Names are those of registered NFs, or
// those that a NameTable knows, which may be chains themselves.
//
// A value; copies share what their options have loaded.
class NfSpec {
 public:
  // Makes of a name what it stands for; null for nothing.
  class NameTable {
   public:
    virtual const NfSpec* Find(std::string_view name) const = 0;

   protected:
    ~NameTable() = default;
  };

  NfSpec() = default;  // of nothing
  // Of one NF. Not explicit: an NF is what it is.
  NfSpec(const NfRegistration& nf, NfOptions options = {});  // NOLINT

  // InvalidArgument, quoting what is wrong and saying at which character.
  static absl::StatusOr<NfSpec> Parse(std::string_view text,
                                      const NameTable* names = nullptr);

  // As Parse takes it.
  std::string text() const;
  // Whether all NFs take their options, know the labels that are asked of them,
  // and can stand in one chain; if not, what is wrong.
  absl::Status check() const;
  // A new object. The spec must be good: see check().
  std::unique_ptr<NetworkFunction> create() const;

 private:
  // An NF of the chain. Names of a chain's NFs differ: "nat", "nat#2".
  struct Node {
    std::string name;
    const NfRegistration* nf;
    NfOptions options;
  };

  std::vector<Node> nodes_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_SPEC_H_
