// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_spec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace snf {

NfSpec::NfSpec(const NfRegistration& nf, NfOptions options) {
  nodes_.push_back({std::string(nf.name), &nf, std::move(options)});
}

absl::StatusOr<NfSpec> NfSpec::Parse(std::string_view text,
                                     const NameTable* /*names*/) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const NfRegistration* const nf = FindNf(name);
  if (nf == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", std::string(name), "\" is no NF; there is: ",
        absl::StrJoin(ListNfs(), ", ",
                      [](std::string* to, const NfRegistration* one) {
                        to->append(one->name);
                      })));
  }
  absl::StatusOr<NfOptions> options =
      NfOptions::Parse(text.substr(std::min(colon + 1, text.size())));
  if (!options.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(name), ": ", std::string(options.status().message())));
  }
  return NfSpec(*nf, *std::move(options));
}

std::string NfSpec::text() const {
  return absl::StrJoin(nodes_, " | ", [](std::string* to, const Node& node) {
    to->append(node.nf->name);
    const std::string options = node.options.text();
    if (!options.empty()) absl::StrAppend(to, "(", options, ")");
  });
}

absl::Status NfSpec::check() const {
  if (nodes_.empty()) return absl::InvalidArgumentError("there is no NF");
  for (const Node& node : nodes_) {
    const absl::Status status = node.nf->check(node.options);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(node.name, ": ", std::string(status.message())));
  }
  return absl::OkStatus();
}

std::unique_ptr<NetworkFunction> NfSpec::create() const {
  SNF_CHECK(nodes_.size() == 1);
  return nodes_[0].nf->create(nodes_[0].options);
}

}  // namespace snf
