// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_SPEC_H_
#define SNF_RUNTIME_SDK_NF_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sdk/chain.h"
#include "runtime/sdk/nf.h"

namespace snf {

// The program of units: an NF with its options, or a chain of such (Serpens
// §III-C, Fig. 8: chain, distribute, aggregate; chain.h). As text:
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
// Braces follow an NF and distribute by its labels: a packet takes the arm of
// its label (NetworkFunction::labels()), or that of "*", which is the last, or
// else none; after the braces the arms join again. A name is one that a
// NameTable knows, which may stand for a chain, or that of a registered NF, or
// the file of a module (nf_module.h). A value that contains a comma or a
// bracket, or begins or ends with a blank, stands in "…", where \" and \\ mean
// " and \. In the form without parentheses it has no comma.
//
// [connections=…] is the number of connections of one inside endpoint of which
// the NFs beside one with two sides keep state (chain.h).
//
// A value; copies share the files that their options have loaded.
class NfSpec {
 public:
  static constexpr size_t kMaxDepth = 8;  // of nested braces
  static constexpr uint32_t kMaxConnections = 1024;

  // Finds the spec that a name stands for. A table may call Parse with itself
  // as `names` only inside Find, so that a name defined by itself is detected.
  class NameTable {
   public:
    // Returns the spec, which the table owns, or null if it does not know the
    // name.
    virtual absl::StatusOr<const NfSpec*> Find(std::string_view name) const = 0;

   protected:
    virtual ~NameTable() = default;

   private:
    friend class NfSpec;
    // Names being looked up, each of which is needed by the previous one.
    mutable std::vector<std::string> looked_up_;
  };

  NfSpec() = default;  // without an NF
  // A spec of one NF. Not explicit, so that an NF can stand for its spec.
  NfSpec(const NfRegistration& nf, NfOptions options = {});  // NOLINT

  // Parses a text. InvalidArgument quotes the wrong part and names its
  // character. `names` may be null.
  static absl::StatusOr<NfSpec> Parse(std::string_view text,
                                      const NameTable* names = nullptr);

  // Gives the option `key` of all NFs that are registered as `nf` this value.
  // NotFound if there is no such NF; check() tells if it takes the option.
  absl::Status SetOption(std::string_view nf, const std::string& key,
                         const std::string& value);
  // Returns OK if the text names no file: no module, and no option whose values
  // are "FILE" (NfOptions::Load), or "@FILE" if its value has an @. Opens none.
  // Names that are not known here pass. Errors: PermissionDenied names the
  // file; InvalidArgument as of Parse.
  static absl::Status CheckNamesNoFile(std::string_view text);

  // Returns the files that options name for NFs to read, and the option of
  // each: "firewall: rules". A list of files comes as one name, with +. The
  // values of these options are "FILE" (NfOptions::Load, List), or have "@FILE"
  // between ":" and ";"; a file that is written has "FILE, written".
  struct InputFile {
    std::string option;
    std::string file;
  };
  std::vector<InputFile> input_files() const;
  // Returns all NFs of the chain, in the order of the text, with the values of
  // their options.
  struct GivenNf {
    const NfRegistration* nf;
    std::map<std::string, std::string> options;
  };
  std::vector<GivenNf> nfs() const;

  // Returns the spec with the NFs that FindNf knows now by the same names.
  NfSpec WithKnownNfs() const;

  // The text that Parse reads.
  std::string text() const;
  // Returns OK if all NFs take their options, have the labels that the braces
  // name, and can stand in one chain; else the error.
  absl::Status check() const;
  // Returns a new object. check() must be OK.
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

  static size_t SetIn(Nodes& nodes, std::string_view nf, const std::string& key,
                      const std::string& value);
  static size_t CountOf(const Nodes& nodes);
  static size_t DepthOf(const Nodes& nodes);
  static std::string TextOf(const Nodes& nodes);
  static absl::Status CheckNoFiles(const Nodes& nodes);
  static void AddFilesOf(const Nodes& nodes, std::vector<InputFile>& files);
  static void RenewNfsOf(Nodes& nodes);
  static void AddNfsOf(const Nodes& nodes, std::vector<GivenNf>& nfs);
  // Adds the NFs of `nodes` to the plan; a packet that leaves them continues at
  // `exit`.
  static absl::Status AddTo(Chain::Plan& plan, const Nodes& nodes, size_t exit,
                            bool in_braces, bool is_checked);
  bool is_chain() const { return nodes_.size() > 1 || !nodes_[0].arms.empty(); }
  absl::StatusOr<std::unique_ptr<NetworkFunction>> Make(bool is_checked) const;

  Nodes nodes_;
  uint32_t connections_ = Chain::kDefaultConnections;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_SPEC_H_
