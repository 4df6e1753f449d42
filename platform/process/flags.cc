// SPDX-License-Identifier: Apache-2.0
#include "platform/process/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "base/text/wrapping.h"

namespace snf {
namespace {

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

std::string Print(Nanos duration) {
  return FlagText(FormatDuration(duration, Precision::kExact));
}

std::string PrintBytes(int64_t bytes) {
  return FlagText(FormatBytes(bytes, Precision::kExact));
}

std::string PrintRate(int64_t rate_bps) {
  return FlagText(FormatBitRate(rate_bps, Precision::kExact));
}

std::string PrintPacketRate(int64_t rate_pps) {
  return FlagText(FormatPacketRate(rate_pps, Precision::kExact));
}

// Column of the meanings of choices in the help.
constexpr size_t kMeaningColumn = 25;

// Wraps a paragraph all lines of which are indented.
std::string Paragraph(const std::string& text, size_t indent) {
  return Wrap(std::string(indent, ' '), WordsOf(text), {.indent = indent});
}

template <typename T>
absl::Status CheckRange(const std::string& text, T value, T lowest, T highest,
                        std::string (*print)(T)) {
  if (value >= lowest && value <= highest) return absl::OkStatus();
  return Bad(fmt::format("\"{}\" is out of range: {} to {}", text,
                         print(lowest), print(highest)));
}

template <typename T>
absl::Status ParseWhole(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end) return absl::OkStatus();
  return Bad(fmt::format("\"{}\" is not a whole number from 0", text));
}

// Throws what CLI11 takes for a bad value.
std::function<void(const std::string&)> CheckedBy(const std::string& name,
                                                  FlagSet::Parse parse) {
  return [name, parse = std::move(parse)](const std::string& text) {
    const absl::Status status = parse(text);
    if (!status.ok()) {
      throw CLI::ValidationError("--" + name, std::string(status.message()));
    }
  };
}

// For CLI11, the value of "--name=" is the next word.
absl::Status CheckForEmptyValues(const CLI::App& app,
                                 std::span<const std::string> words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string name = word.substr(0, word.size() - 1);
    if (app.get_option_no_throw(name) != nullptr) {
      return Bad(name + ": the value is empty");
    }
  }
  return absl::OkStatus();
}

}  // namespace

FlagSet::FlagSet() : app_(std::make_unique<CLI::App>()) {}

FlagSet::~FlagSet() = default;

void FlagSet::Argument(const std::string& name, std::string& value) {
  app_->add_option(name, value)->required();
}

void FlagSet::Arguments(const std::string& name,
                        std::vector<std::string>& values, int least) {
  CLI::Option& option = *app_->add_option(name, values);
  if (least > 0) option.required();
  if (least > 1) option.expected(least, -1);
}

absl::StatusOr<bool> FlagSet::ParseCommandLine(
    std::span<const std::string> arguments) {
  arguments_.assign(arguments.begin(), arguments.end());
  if (absl::Status s = CheckForEmptyValues(*app_, arguments); !s.ok()) return s;
  try {
    // CLI11 takes them from the end.
    app_->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success&) {
    return false;  // --help
  } catch (const CLI::ParseError& error) {
    return Bad(error.what());
  }
  return true;
}

FlagSet::Traits& FlagSet::Custom(const std::string& name,
                                 const std::string& type,
                                 const std::string& help, Parse parse,
                                 Print print,
                                 const std::vector<Meaning>& meanings) {
  app_->add_option_function<std::string>("--" + name, CheckedBy(name, parse),
                                         help)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  Traits& traits = Remember(name, type, help, std::move(print));
  flags_.back().meanings = meanings;
  return traits;
}

FlagSet::Traits& FlagSet::Repeated(const std::string& name,
                                   const std::string& type,
                                   const std::string& help, Parse parse,
                                   Print print) {
  app_->add_option_function<std::vector<std::string>>(
          "--" + name,
          [check =
               CheckedBy(name, parse)](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) check(text);
          },
          help)
      ->allow_extra_args(false);
  Traits& traits = Remember(name, type, help, std::move(print));
  traits.is_repeated = true;
  return traits;
}

FlagSet::Traits& FlagSet::Remember(const std::string& name,
                                   const std::string& type,
                                   const std::string& help, Print print) {
  flags_.push_back({.name = name,
                    .type = type,
                    .heading = heading_,
                    .help = help,
                    .default_text = print(),
                    .print = print,
                    .meanings = {},
                    .traits = {.section = section_}});
  return flags_.back().traits;
}

FlagSet::Traits& FlagSet::Duration(const std::string& name, Nanos& value,
                                   Nanos lowest, Nanos highest,
                                   const std::string& help) {
  return Custom(
      name, "TIME", help,
      [&value, lowest, highest](const std::string& text) {
        const absl::StatusOr<Nanos> parsed = ParseDuration(text);
        if (!parsed.ok()) return parsed.status();
        value = *parsed;
        return CheckRange<Nanos>(text, value, lowest, highest, snf::Print);
      },
      [&value] { return snf::Print(value); });
}

FlagSet::Traits& FlagSet::DurationOrInfinity(const std::string& name,
                                             Nanos& value, Nanos lowest,
                                             const std::string& help) {
  return Custom(
      name, "TIME|inf", help,
      [&value, lowest](const std::string& text) {
        const absl::StatusOr<Nanos> parsed = ParseDurationOrInfinity(text);
        if (!parsed.ok()) return parsed.status();
        value = *parsed;
        return CheckRange<Nanos>(text, value, lowest, Nanos::max(), snf::Print);
      },
      [&value] { return snf::Print(value); });
}

FlagSet::Traits& FlagSet::Bytes(const std::string& name, uint32_t& value,
                                uint32_t lowest, uint32_t highest,
                                const std::string& help) {
  return Custom(
      name, "BYTES", help,
      [&value, lowest, highest](const std::string& text) {
        const absl::StatusOr<int64_t> parsed = ParseBytes(text);
        if (!parsed.ok()) return parsed.status();
        const absl::Status status =
            CheckRange<int64_t>(text, *parsed, lowest, highest, PrintBytes);
        if (status.ok()) value = static_cast<uint32_t>(*parsed);
        return status;
      },
      [&value] { return PrintBytes(value); });
}

FlagSet::Traits& FlagSet::BitRate(const std::string& name, int64_t& value,
                                  int64_t lowest, int64_t highest,
                                  const std::string& help,
                                  const std::string& if_unset) {
  Traits& traits = Custom(
      name, "RATE", help,
      [&value, lowest, highest](const std::string& text) {
        const absl::StatusOr<int64_t> parsed = ParseBitRate(text);
        if (!parsed.ok()) return parsed.status();
        value = *parsed;
        return CheckRange<int64_t>(text, value, lowest, highest, PrintRate);
      },
      [&value, if_unset] {
        return value == 0 && !if_unset.empty() ? "" : PrintRate(value);
      });
  if (!if_unset.empty()) flags_.back().default_text = if_unset;
  return traits;
}

FlagSet::Traits& FlagSet::PacketRate(const std::string& name, int64_t& value,
                                     int64_t lowest, int64_t highest,
                                     const std::string& help,
                                     const std::string& if_unset) {
  Traits& traits = Custom(
      name, "RATE", help,
      [&value, lowest, highest](const std::string& text) {
        const absl::StatusOr<int64_t> parsed = ParsePacketRate(text);
        if (!parsed.ok()) return parsed.status();
        value = *parsed;
        return CheckRange<int64_t>(text, value, lowest, highest,
                                   PrintPacketRate);
      },
      [&value] { return value == 0 ? "" : PrintPacketRate(value); });
  flags_.back().default_text = if_unset;
  return traits;
}

FlagSet::Traits& FlagSet::BitRateOrNone(const std::string& name, int64_t& value,
                                        bool& none, int64_t lowest,
                                        int64_t highest,
                                        const std::string& help) {
  return Custom(
      name, "RATE|none", help,
      [&value, &none, lowest, highest](const std::string& text) {
        none = text == "none";
        if (none) return absl::OkStatus();
        const absl::StatusOr<int64_t> parsed = ParseBitRate(text);
        if (!parsed.ok()) return parsed.status();
        value = *parsed;
        return CheckRange<int64_t>(text, value, lowest, highest, PrintRate);
      },
      [&value, &none] { return none ? "none" : PrintRate(value); });
}

FlagSet::Traits& FlagSet::Count(const std::string& name, uint32_t& value,
                                uint32_t lowest, uint32_t highest,
                                const std::string& help) {
  return Custom(
      name, "N", help,
      [&value, lowest, highest](const std::string& text) {
        uint32_t parsed = 0;
        if (absl::Status status = ParseWhole(text, parsed); !status.ok()) {
          return status;
        }
        value = parsed;
        return CheckRange<uint32_t>(
            text, value, lowest, highest,
            [](uint32_t n) { return std::to_string(n); });
      },
      [&value] { return std::to_string(value); });
}

FlagSet::Traits& FlagSet::Port(const std::string& name, uint16_t& value,
                               const std::string& help) {
  return Custom(
      name, "PORT", help,
      [&value](const std::string& text) {
        uint32_t parsed = 0;
        if (absl::Status status = ParseWhole(text, parsed); !status.ok()) {
          return status;
        }
        value = static_cast<uint16_t>(parsed);
        return CheckRange<uint32_t>(
            text, parsed, 0, std::numeric_limits<uint16_t>::max(),
            [](uint32_t n) { return std::to_string(n); });
      },
      [&value] { return std::to_string(value); });
}

FlagSet::Traits& FlagSet::Number(const std::string& name, uint64_t& value,
                                 const std::string& help) {
  return Custom(
      name, "N", help,
      [&value](const std::string& text) { return ParseWhole(text, value); },
      [&value] { return std::to_string(value); });
}

FlagSet::Traits& FlagSet::Fraction(const std::string& name, uint32_t& value,
                                   uint32_t one, const std::string& help) {
  return Custom(
      name, "0..1", help,
      [&value, one](const std::string& text) {
        double parsed = -1;
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, parsed);
        if (error != std::errc() || rest != end || !(parsed >= 0) ||
            parsed > 1) {
          return Bad(fmt::format("\"{}\" is not a number from 0 to 1", text));
        }
        value = static_cast<uint32_t>(std::lround(parsed * one));
        if (value == 0 && parsed > 0) {
          return Bad(
              fmt::format("\"{}\" is less than {:.2g}, the least above 0", text,
                          1.0 / one));
        }
        return absl::OkStatus();
      },
      [&value, one] {
        return fmt::format("{:.4g}", static_cast<double>(value) / one);
      });
}

FlagSet::Traits& FlagSet::Choice(const std::string& name, size_t& value,
                                 const std::vector<Meaning>& meanings,
                                 const std::string& help) {
  return AddChoice(
      name, meanings, help, [&value](size_t place) { value = place; },
      [&value] { return value; });
}

FlagSet::Traits& FlagSet::AddChoice(const std::string& name,
                                    const std::vector<Meaning>& meanings,
                                    const std::string& help,
                                    const std::function<void(size_t)>& set,
                                    const std::function<size_t()>& get) {
  std::vector<std::string> choices;
  for (const Meaning& meaning : meanings) choices.push_back(meaning.choice);
  Traits& traits = Custom(
      name, "CHOICE", help,
      [set, choices](const std::string& text) {
        const auto found = std::find(choices.begin(), choices.end(), text);
        if (found == choices.end()) {
          return Bad(fmt::format("\"{}\" is none of {}", text,
                                 fmt::join(choices, ", ")));
        }
        set(static_cast<size_t>(found - choices.begin()));
        return absl::OkStatus();
      },
      [get, choices] { return choices[get()]; });
  flags_.back().meanings = meanings;
  return traits;
}

FlagSet::Traits& FlagSet::Text(const std::string& name, std::string& value,
                               const std::string& type, const std::string& help,
                               const std::vector<Meaning>& meanings) {
  return Custom(
      name, type, help,
      [&value](const std::string& text) {
        if (text.empty()) return Bad("\"\" is empty");
        value = text;
        return absl::OkStatus();
      },
      [&value] { return value; }, meanings);
}

FlagSet::Traits& FlagSet::Switch(const std::string& name, bool& value,
                                 const std::string& help) {
  app_->add_flag("--" + name + ",!--no_" + name, value, help);
  flags_.push_back({.name = name,
                    .type = "",
                    .heading = heading_,
                    .help = help,
                    .default_text = value ? "on" : "off",
                    .print = [&value] { return value ? "true" : "false"; },
                    .meanings = {},
                    .traits = {.section = section_}});
  return flags_.back().traits;
}

FlagSet::Traits& FlagSet::Question(const std::string& name, bool& asked,
                                   const std::string& help) {
  app_->add_flag("--" + name, asked, help);
  flags_.push_back({.name = name,
                    .type = "",
                    .heading = heading_,
                    .help = help,
                    .default_text = "",
                    .print = [] { return std::string(); },
                    .meanings = {},
                    .traits = {.section = section_}});
  return flags_.back().traits;
}

void FlagSet::Give(const std::string& name, std::vector<std::string> values) {
  CLI::Option* const option = app_->get_option("--" + name);
  option->add_result(std::move(values));
  option->run_callback();
}

absl::Status FlagSet::TryGive(const std::string& name,
                              const std::string& value) {
  const auto flag = std::ranges::find(flags_, name, &Flag::name);
  const bool is_switch = flag->type.empty();
  if (is_switch && value != "true" && value != "false") {
    return Bad(fmt::format("\"{}\" is none of true, false", value));
  }
  app_->get_option("--" + name)->clear();  // values of earlier calls
  try {
    Give(name, {value});
  } catch (const CLI::Error& error) {
    std::string what = error.what();
    const std::string prefix = fmt::format("--{}: ", name);
    if (what.starts_with(prefix)) what.erase(0, prefix.size());
    return Bad(what);
  }
  return absl::OkStatus();
}

bool FlagSet::given(const std::string& name) const {
  const CLI::Option* const option = app_->get_option_no_throw("--" + name);
  return option != nullptr && option->count() > 0;
}

std::string FlagSet::Help(const std::string& usage,
                          const std::string& about) const {
  std::string text = fmt::format("Usage: {}\n\n{}", usage, Paragraph(about, 0));
  const std::string* heading = nullptr;
  for (const Flag& flag : flags_) {
    if (heading == nullptr || flag.heading != *heading) {
      heading = &flag.heading;
      text += fmt::format("\n{}:\n", *heading);
    }
    std::string name = "--" + flag.name;
    if (!flag.type.empty()) {
      name += "=" + flag.type;
    } else if (!flag.default_text.empty()) {
      name += ", --no_" + flag.name;
    }
    std::string by_default;
    if (!flag.default_text.empty()) {
      by_default = fmt::format("  [{}]", flag.default_text);
      if (name.size() + by_default.size() > 78) {
        by_default = "\n" + Paragraph("[" + flag.default_text + "]", 6);
        by_default.pop_back();
      }
    }
    text +=
        fmt::format("  {}{}\n{}", name, by_default, Paragraph(flag.help, 6));
    for (const Meaning& meaning : flag.meanings) {
      text += Wrap(
          fmt::format("{:8}{:<{}}", "", meaning.choice, kMeaningColumn - 8),
          WordsOf(meaning.what), {.indent = kMeaningColumn});
    }
  }
  return text;
}

std::string FlagSet::Printed(const std::string& name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return fmt::format("--{}={}", name, flag.print());
  }
  return "--" + name;
}

const FlagSet::Traits* FlagSet::Find(std::string_view name) const {
  const auto found = std::ranges::find(flags_, name, &Flag::name);
  return found == flags_.end() ? nullptr : &found->traits;
}

std::vector<std::pair<std::string, std::string>> FlagSet::values() const {
  std::vector<std::pair<std::string, std::string>> values;
  values.reserve(flags_.size());
  for (const Flag& flag : flags_) {
    std::string value = flag.print();
    if (!value.empty()) values.emplace_back(flag.name, std::move(value));
  }
  return values;
}

}  // namespace snf
