// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Returns true if `c` may stand in a name, which may be the path of a module.
bool IsOfName(char c) {
  constexpr std::string_view kOthers = "_-./+~@";
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kOthers.find(c) != kOthers.npos;
}

std::string InQuotes(std::string_view text) {
  return absl::StrCat("\"", std::string(text), "\"");
}

std::string NfNames() {
  return absl::StrJoin(
      ListNfs(), ", ",
      [](std::string* to, const NfRegistration* nf) { to->append(nf->name); });
}

}  // namespace

// A recursive descent parser. A method that fails records the error and returns
// false, and so do its callers.
class NfSpec::Parser {
 public:
  // If `opens` is false, a module is an error, and an unknown name is not.
  Parser(std::string_view text, const NameTable* names, bool opens = true)
      : text_(text), names_(names), opens_(opens) {}

  absl::StatusOr<NfSpec> Parse() {
    SkipBlanks();
    const size_t begin = at_;
    const std::string_view name = Name();
    if (!name.empty() && at_ < text_.size() && text_[at_] == ':') {
      return WithoutParentheses(name, begin);
    }
    at_ = begin;
    NfSpec spec;
    if (ChainOptions(spec) && Chain(spec.nodes_, 0) && at_ < text_.size()) {
      Fail(at_, "there should be \"|\" or the end");
    }
    if (!error_.ok()) return error_;
    return spec;
  }

 private:
  // Records an error whose message already says where it is.
  bool Fail(const std::string& what) {
    error_ = absl::InvalidArgumentError(what);
    return false;
  }
  bool Fail(size_t at, const std::string& what) {
    error_ = absl::InvalidArgumentError(
        absl::StrCat("character ", at + 1, ": ", what));
    return false;
  }

  void SkipBlanks() {
    at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
  }
  bool At(char c) {
    SkipBlanks();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Eat(char c) {
    if (!At(c)) return false;
    ++at_;
    return true;
  }
  bool Expect(char c) {
    if (Eat(c)) return true;
    return Fail(at_,
                absl::StrCat("there should be \"", std::string(1, c), "\""));
  }
  // Reads a name; empty if there is none.
  std::string_view Name() {
    SkipBlanks();
    const size_t begin = at_;
    while (at_ < text_.size() && IsOfName(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Parses the form "nat:ip=192.0.2.1", which is the whole text.
  absl::StatusOr<NfSpec> WithoutParentheses(std::string_view name,
                                            size_t begin) {
    Nodes nodes;
    at_ = begin + name.size();
    if (!Nf(nodes, name, begin, 0)) return error_;
    if (nodes.size() != 1 || !nodes[0].arms.empty()) {
      Fail(begin, InQuotes(name) + " is a chain and takes no options");
      return error_;
    }
    const std::string_view rest = text_.substr(at_ + 1);
    if (const size_t bar = rest.find('|'); bar != rest.npos) {
      Fail(at_ + 1 + bar, "in a chain options stand in parentheses: " +
                              std::string(name) + "(key=value)");
      return error_;
    }
    absl::StatusOr<NfOptions> options = NfOptions::Parse(rest);
    if (!options.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          std::string(name), ": ", std::string(options.status().message())));
    }
    if (!rest.empty()) nodes[0].options = *std::move(options);
    NfSpec spec;
    spec.nodes_ = std::move(nodes);
    return spec;
  }

  bool ChainOptions(NfSpec& spec) {
    if (!Eat('[')) return true;
    SkipBlanks();
    const size_t begin = at_;
    const std::string_view key = Name();
    if (key != "connections") {
      return Fail(begin, InQuotes(key) +
                             " is no option of a chain; there is: connections");
    }
    if (!Expect('=')) return false;
    SkipBlanks();
    const size_t value = at_;
    const std::string_view number = Name();
    const char* const end = number.data() + number.size();
    const auto [rest, error] =
        std::from_chars(number.data(), end, spec.connections_);
    if (error != std::errc() || rest != end || spec.connections_ == 0 ||
        spec.connections_ > kMaxConnections) {
      return Fail(value, absl::StrCat("connections must be a whole number from "
                                      "1 to ",
                                      kMaxConnections));
    }
    return Expect(']');
  }

  bool Chain(Nodes& nodes, size_t depth) {
    do {
      SkipBlanks();
      const size_t begin = at_;
      if (!Eat('{')) {
        if (!Nf(nodes, Name(), begin, depth)) return false;
      } else if (nodes.empty()) {
        return Fail(begin, "braces follow an NF");
      } else if (!nodes.back().arms.empty()) {
        return Fail(begin, "braces cannot follow braces");
      } else if (depth == kMaxDepth) {
        return Fail(begin, absl::StrCat("more than ", kMaxDepth,
                                        " braces in each other"));
      } else if (!Arms(nodes.back().arms, depth + 1)) {
        return false;
      }
    } while (Eat('|'));
    return true;
  }

  bool Arms(std::vector<Arm>& arms, size_t depth) {
    do {
      SkipBlanks();
      const size_t begin = at_;
      const std::string label(Eat('*') ? "*" : Name());
      if (label.empty()) return Fail(begin, "there should be a label");
      for (const Arm& arm : arms) {
        if (arm.label == label) {
          return Fail(begin, "label " + InQuotes(label) + " is there twice");
        }
        if (arm.label == "*") {
          return Fail(begin, "\"*\" must be the last label");
        }
      }
      if (!Expect(':')) return false;
      Arm& arm = arms.emplace_back(Arm{label, {}});
      if (!At(',') && !At('}') && !Chain(arm.nodes, depth)) return false;
    } while (Eat(','));
    return Expect('}');
  }

  // Adds the NF or chain that `name`, which stands at `begin`, means, with the
  // options behind it.
  bool Nf(Nodes& nodes, std::string_view name, size_t begin, size_t depth) {
    if (name.empty()) return Fail(begin, "there should be the name of an NF");
    const NfSpec* named = nullptr;
    if (!LookUp(name, named)) return false;
    if (named == nullptr) {
      if (!opens_ && NamesNfModule(name)) {
        error_ = absl::PermissionDeniedError(
            InQuotes(name) + " is a module, a file of the host");
        return false;
      }
      absl::StatusOr<const NfRegistration*> nf = FindNf(name);
      if (NamesNfModule(name)) nf = LoadNfModule(std::string(name));
      if (!nf.ok()) return Fail(std::string(nf.status().message()));
      if (*nf == nullptr && opens_) {
        return Fail(InQuotes(name) + " is no NF; there is: " + NfNames());
      }
      NfOptions options;
      if (!Options(options)) return false;
      nodes.push_back({*nf, std::move(options), {}});
      ++count_;
    } else if (At('(')) {
      return Fail(at_, InQuotes(name) + " stands for " +
                           InQuotes(named->text()) + " and takes no options");
    } else {
      if (depth + DepthOf(named->nodes_) > kMaxDepth) {
        return Fail(begin, absl::StrCat("with ", InQuotes(name),
                                        " there are more than ", kMaxDepth,
                                        " braces in each other"));
      }
      nodes.insert(nodes.end(), named->nodes_.begin(), named->nodes_.end());
      count_ += CountOf(named->nodes_);
    }
    if (count_ <= snf::Chain::kMaxNfs) return true;
    return Fail(begin,
                absl::StrCat("with ", InQuotes(name), " there are more than ",
                             snf::Chain::kMaxNfs, " NFs"));
  }

  bool LookUp(std::string_view name, const NfSpec*& named) {
    if (names_ == nullptr) return true;
    std::vector<std::string>& looked_up = names_->looked_up_;
    const auto same = std::ranges::find(looked_up, name);
    if (!looked_up.empty() && looked_up.back() == name &&
        FindNf(name) != nullptr) {
      return Fail(InQuotes(name) +
                  " names itself, not the NF of this name: give the chain "
                  "another name");
    }
    if (same != looked_up.end()) {
      std::string path;
      for (auto one = same; one != looked_up.end(); ++one) {
        path += InQuotes(*one) + " needs ";
      }
      return Fail(path + InQuotes(name));
    }
    looked_up.emplace_back(name);
    const absl::StatusOr<const NfSpec*> found = names_->Find(name);
    looked_up.pop_back();
    if (!found.ok()) {
      // If names are nested, the error is about the innermost.
      const std::string what(found.status().message());
      return Fail(what.starts_with('"') ? what : InQuotes(name) + ": " + what);
    }
    named = *found;
    return true;
  }

  bool Options(NfOptions& options) {
    if (!Eat('(')) return true;
    std::map<std::string, std::string> values;
    while (!At(')')) {
      if (!values.empty() && !Expect(',')) return false;
      SkipBlanks();
      const size_t begin = at_;
      const std::string key(Name());
      if (key.empty()) return Fail(begin, "there should be key=value");
      if (!Expect('=')) return false;
      std::string value;
      if (!Value(value)) return false;
      if (!values.emplace(key, std::move(value)).second) {
        return Fail(begin, InQuotes(key) + " is given twice");
      }
    }
    ++at_;
    options = NfOptions(values);
    return true;
  }

  bool Value(std::string& value) {
    if (!At('"')) {
      const size_t end =
          std::min(text_.find_first_of(",)\"", at_), text_.size());
      const std::string_view bare = text_.substr(at_, end - at_);
      value = bare.substr(0, bare.find_last_not_of(kBlanks) + 1);
      at_ = end;
      if (end == text_.size() || text_[end] == '"') {
        return Fail(end, "there should be \",\" or \")\"");
      }
      return true;
    }
    const size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_++];
    }
    if (at_ == text_.size()) return Fail(begin, "these quotes have no end");
    ++at_;
    if (At(',') || At(')')) return true;
    return Fail(at_, "there should be \",\" or \")\"");
  }

  std::string_view text_;
  const NameTable* names_;
  const bool opens_;
  size_t at_ = 0;
  size_t count_ = 0;  // of NFs
  absl::Status error_;
};

absl::StatusOr<NfSpec> NfSpec::Parse(std::string_view text,
                                     const NameTable* names) {
  return Parser(text, names).Parse();
}

// An unknown NF is a null one.
absl::Status NfSpec::CheckNoFiles(const Nodes& nodes) {
  for (const Node& node : nodes) {
    for (const Arm& arm : node.arms) {
      absl::Status status = CheckNoFiles(arm.nodes);
      if (!status.ok()) return status;
    }
    if (node.nf == nullptr) continue;
    const auto given = node.options.values();
    for (const NfOptions::Description& option : node.nf->options()) {
      const auto value = given.find(option.key);
      if (value == given.end()) continue;
      const bool names_file =
          option.values.starts_with("FILE") ||
          (option.values.find("@FILE") != std::string::npos &&
           value->second.find('@') != std::string::npos);
      if (!names_file) continue;
      return absl::PermissionDeniedError(
          absl::StrCat(std::string(node.nf->name), ": ", option.key, "=",
                       value->second, " names a file of the host"));
    }
  }
  return absl::OkStatus();
}

absl::Status NfSpec::CheckNamesNoFile(std::string_view text) {
  const absl::StatusOr<NfSpec> spec =
      Parser(text, nullptr, /*opens=*/false).Parse();
  return spec.ok() ? CheckNoFiles(spec->nodes_) : spec.status();
}

std::string WithNfFiles(std::string_view text,
                        const std::map<std::string, std::string>& files) {
  std::string result;
  size_t at = 0;
  bool in_quotes = false;
  size_t depth = 0;  // of brackets and parentheses, where options stand
  while (at < text.size()) {
    const char c = text[at];
    if (in_quotes || depth > 0 || !IsOfName(c)) {
      if (c == '"') in_quotes = !in_quotes;
      if (!in_quotes && (c == '(' || c == '[')) ++depth;
      if (!in_quotes && (c == ')' || c == ']')) --depth;
      const size_t length = in_quotes && c == '\\' ? 2 : 1;
      result += text.substr(at, length);
      at += length;
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && IsOfName(text[at])) ++at;
    const std::string name(text.substr(begin, at - begin));
    const size_t next = text.find_first_not_of(kBlanks, at);
    const bool has_colon = next != text.npos && text[next] == ':';
    // Options without parentheses follow the only NF; or this is a label.
    const bool is_nf = !has_colon || text.find_first_not_of(kBlanks) == begin;
    const auto file = files.find(name);
    const bool is_there = is_nf && file != files.end() &&
                          std::ranges::all_of(file->second, IsOfName);
    result += is_there ? file->second : name;
    if (!has_colon || !is_nf) continue;
    result += text.substr(at);
    break;
  }
  return result;
}

}  // namespace snf
