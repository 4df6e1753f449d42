// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/nf_spec.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace snf {
namespace {

absl::Status With(std::string_view name, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(name), ": ", std::string(status.message())));
}

bool IsRead(const NfOptions::Description& option) {
  return option.values == "FILE" || option.values == "FILE[+…]";
}

// Returns the files of a value such as "bad:@bad.txt;web:80": each stands
// behind an @ at the beginning of an item or behind its colon.
std::vector<std::string> FilesBehindAt(std::string_view value) {
  std::vector<std::string> files;
  while (!value.empty()) {
    const std::string_view item = value.substr(0, value.find(';'));
    value.remove_prefix(std::min(item.size() + 1, value.size()));
    const size_t at = item.find('@');
    const bool is_file = at == 0 || (at != item.npos && item[at - 1] == ':');
    if (is_file) files.emplace_back(item.substr(at + 1));
  }
  return files;
}

// Returns the value as it stands in a text: in quotes if it needs them.
std::string Quoted(const std::string& value) {
  const bool is_bare = !value.empty() && value.front() != ' ' &&
                       value.back() != ' ' &&
                       value.find_first_of(",()\"\\\t\n") == std::string::npos;
  if (is_bare) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

NfSpec::NfSpec(const NfRegistration& nf, NfOptions options) {
  nodes_.push_back({&nf, std::move(options), {}});
}

// Returns the number of NFs of that name.
size_t NfSpec::SetIn(Nodes& nodes, std::string_view nf, const std::string& key,
                     const std::string& value) {
  size_t count = 0;
  for (Node& node : nodes) {
    if (node.nf->name == nf) {
      std::map<std::string, std::string> values = node.options.values();
      values[key] = value;
      node.options = NfOptions(values);
      ++count;
    }
    for (Arm& arm : node.arms) count += SetIn(arm.nodes, nf, key, value);
  }
  return count;
}

absl::Status NfSpec::SetOption(std::string_view nf, const std::string& key,
                               const std::string& value) {
  if (SetIn(nodes_, nf, key, value) > 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("there is no NF \"", std::string(nf), "\""));
}

size_t NfSpec::CountOf(const Nodes& nodes) {
  size_t count = nodes.size();
  for (const Node& node : nodes) {
    for (const Arm& arm : node.arms) count += CountOf(arm.nodes);
  }
  return count;
}

size_t NfSpec::DepthOf(const Nodes& nodes) {
  size_t depth = 0;
  for (const Node& node : nodes) {
    for (const Arm& arm : node.arms) {
      depth = std::max(depth, 1 + DepthOf(arm.nodes));
    }
  }
  return depth;
}

void NfSpec::AddFilesOf(const Nodes& nodes, std::vector<InputFile>& files) {
  for (const Node& node : nodes) {
    const auto described = node.nf->options();
    for (const auto& [key, value] : node.options.values()) {
      const std::string plain = key.substr(0, key.find('@'));
      const auto option =
          std::ranges::find(described, plain, &NfOptions::Description::key);
      if (option == described.end()) continue;
      const std::string name =
          absl::StrCat(std::string(node.nf->name), ": ", key);
      if (IsRead(*option)) files.push_back({name, value});
      if (option->values.find("@FILE") == std::string::npos) continue;
      for (std::string& file : FilesBehindAt(value)) {
        files.push_back({name, std::move(file)});
      }
    }
    for (const Arm& arm : node.arms) AddFilesOf(arm.nodes, files);
  }
}

std::vector<NfSpec::InputFile> NfSpec::input_files() const {
  std::vector<InputFile> files;
  AddFilesOf(nodes_, files);
  return files;
}

void NfSpec::AddNfsOf(const Nodes& nodes, std::vector<GivenNf>& nfs) {
  for (const Node& node : nodes) {
    nfs.push_back({node.nf, node.options.values()});
    for (const Arm& arm : node.arms) AddNfsOf(arm.nodes, nfs);
  }
}

std::vector<NfSpec::GivenNf> NfSpec::nfs() const {
  std::vector<GivenNf> nfs;
  AddNfsOf(nodes_, nfs);
  return nfs;
}

// Another NF shares no loaded files with the one whose name it has.
void NfSpec::RenewNfsOf(Nodes& nodes) {
  for (Node& node : nodes) {
    for (Arm& arm : node.arms) RenewNfsOf(arm.nodes);
    const NfRegistration* const known = FindNf(node.nf->name);
    if (known == node.nf) continue;
    SNF_CHECK(known != nullptr);
    node.nf = known;
    node.options = NfOptions(node.options.values());
  }
}

NfSpec NfSpec::WithKnownNfs() const {
  NfSpec renewed = *this;
  RenewNfsOf(renewed.nodes_);
  return renewed;
}

std::string NfSpec::TextOf(const Nodes& nodes) {
  return absl::StrJoin(nodes, " | ", [](std::string* to, const Node& node) {
    to->append(node.nf->name);
    const std::string options = absl::StrJoin(
        node.options.values(), ",", [](std::string* one, const auto& value) {
          absl::StrAppend(one, value.first, "=", Quoted(value.second));
        });
    if (!options.empty()) absl::StrAppend(to, "(", options, ")");
    if (node.arms.empty()) return;
    const auto append_arm = [](std::string* one, const Arm& arm) {
      absl::StrAppend(one, arm.label, ":", arm.nodes.empty() ? "" : " ",
                      TextOf(arm.nodes));
    };
    absl::StrAppend(to, " | {", absl::StrJoin(node.arms, ", ", append_arm),
                    "}");
  });
}

std::string NfSpec::text() const {
  const std::string chain = TextOf(nodes_);
  if (connections_ == Chain::kDefaultConnections) return chain;
  return absl::StrCat("[connections=", connections_, "] ", chain);
}

absl::Status NfSpec::AddTo(Chain::Plan& plan, const Nodes& nodes, size_t exit,
                           bool in_braces, bool is_checked) {
  for (const Node& node : nodes) {
    const size_t index = plan.nfs.size();
    size_t next = index + 1;
    for (const Arm& arm : node.arms) next += CountOf(arm.nodes);
    const size_t after = &node == &nodes.back() ? exit : next;

    const auto same = std::ranges::count_if(
        plan.nfs,
        [&](const Chain::Plan::Nf& nf) { return nf.registered == node.nf; });
    Chain::Plan::Nf nf = {.registered = node.nf,
                          .name = std::string(node.nf->name),
                          .nf = nullptr,
                          .arms = {},
                          .after = static_cast<uint8_t>(after),
                          .in_braces = in_braces};
    if (same > 0) absl::StrAppend(&nf.name, "#", same + 1);
    if (!is_checked) {
      const absl::Status status = node.nf->check(node.options);
      if (!status.ok()) return With(nf.name, status);
    }
    nf.nf = node.nf->create(node.options);
    size_t first = index + 1;
    for (const Arm& arm : node.arms) {
      nf.arms.push_back(
          {arm.label, static_cast<uint8_t>(arm.nodes.empty() ? after : first)});
      first += CountOf(arm.nodes);
    }
    plan.nfs.push_back(std::move(nf));
    for (const Arm& arm : node.arms) {
      absl::Status added = AddTo(plan, arm.nodes, after, true, is_checked);
      if (!added.ok()) return added;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NetworkFunction>> NfSpec::Make(
    bool is_checked) const {
  Chain::Plan plan = {.nfs = {}, .connections = connections_};
  absl::Status status = AddTo(plan, nodes_, CountOf(nodes_), false, is_checked);
  if (!status.ok()) return status;
  return Chain::Make(std::move(plan));
}

absl::Status NfSpec::check() const {
  if (nodes_.empty()) return absl::InvalidArgumentError("there is no NF");
  if (is_chain()) return Make(false).status();
  const absl::Status status = nodes_[0].nf->check(nodes_[0].options);
  return status.ok() ? status : With(nodes_[0].nf->name, status);
}

std::unique_ptr<NetworkFunction> NfSpec::create() const {
  SNF_CHECK(!nodes_.empty());
  if (!is_chain()) return nodes_[0].nf->create(nodes_[0].options);
  absl::StatusOr<std::unique_ptr<NetworkFunction>> chain = Make(true);
  SNF_CHECK(chain.ok());
  return *std::move(chain);
}

}  // namespace snf
