// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_SPEC_H_
#define SNF_RUNTIME_SDK_NF_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/chain.h"
#include "runtime/sdk/nf.h"

namespace snf {

// What units run: an NF with its options, or a chain of such (Serpens §III-C,
// Fig. 8: chain, distribute, aggregate; chain.h). As text:
//
//     nat:ip=192.0.2.1,ports=1024-65535                  one NF
//     firewall(rules=fw.txt) | {suspicious: ids, clean: monitor} | nat
//
//     spec   = [ "[" "connections" "=" number "]" ] chain
//     chain  = stage { "|" stage }
//     stage  = nf | "{" arm { "," arm } "}"
//     arm    = label ":" [ chain ]
//     nf     = name [ "(" [ key "=" value { "," key "=" value } ] ")" ]
//
// Braces follow an NF and distribute by what it found: a packet takes the arm
// of its label (NetworkFunction::labels()), or that of "*", which is the last,
// or else none; after the braces the arms are together again. Names are those
// that a NameTable knows, which may be chains themselves, or of registered NFs,
// or are files of modules (nf_module.h).
// A value with a comma, a bracket or a blank at an end stands in "…", where \"
// and \\ are " and \. In the form without parentheses it has no comma.
//
// [connections=…]: of how many connections of one inside endpoint the NFs
// beside one with two sides keep state (chain.h).
//
// A value; copies share what their options have loaded.
class NfSpec {
 public:
  static constexpr size_t kMaxDepth = 8;  // of braces in braces
  static constexpr uint32_t kMaxConnections = 1024;

  // Makes of a name what it stands for; null for nothing. It may parse only
  // then, with itself as the table: a name that needs itself is found out.
  class NameTable {
   public:
    virtual absl::StatusOr<const NfSpec*> Find(std::string_view name) const = 0;

   protected:
    virtual ~NameTable() = default;

   private:
    friend class NfSpec;
    // What is being looked up, each for the sake of the one before.
    mutable std::vector<std::string> looked_up_;
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
  class Parser;
  struct Arm;
  // An NF of the chain, and the braces that follow it.
  struct Node {
    const NfRegistration* nf;
    NfOptions options;
    std::vector<Arm> arms;
  };
  using Nodes = std::vector<Node>;
  struct Arm {
    std::string label;
    Nodes nodes;
  };

  static size_t CountOf(const Nodes& nodes);
  static size_t DepthOf(const Nodes& nodes);
  static std::string TextOf(const Nodes& nodes);
  // Adds what `nodes` come to; a packet goes on at `exit` afterwards.
  static absl::Status AddTo(Chain::Plan& plan, const Nodes& nodes, size_t exit,
                            bool in_braces, bool is_checked);
  bool is_chain() const { return nodes_.size() > 1 || !nodes_[0].arms.empty(); }
  absl::StatusOr<std::unique_ptr<NetworkFunction>> Make(bool is_checked) const;

  Nodes nodes_;
  uint32_t connections_ = Chain::kDefaultConnections;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_SPEC_H_
