// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/distribution.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/quantity.h"
#include "base/text_file.h"

namespace snf {
namespace {

constexpr size_t kMostFileBytes = 64u << 20;
constexpr double kMostValue = 1e18;

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

std::string Trimmed(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

absl::StatusOr<double> ParseNumber(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || !(number >= 0) ||
      number > kMostValue) {
    return Bad(absl::StrCat("\"", text, "\" is not a number from 0"));
  }
  return number;
}

absl::StatusOr<double> ParseValue(const std::string& text,
                                  Distribution::Unit unit) {
  absl::StatusOr<int64_t> value = 0;
  if (unit == Distribution::Unit::kCount) return ParseNumber(text);
  if (unit == Distribution::Unit::kBytes) {
    value = ParseBytes(text);
  } else if (unit == Distribution::Unit::kBitRate) {
    value = ParseBitRate(text);
  } else {
    const absl::StatusOr<Nanos> time = ParseDuration(text);
    value = time.ok() ? absl::StatusOr<int64_t>(time->ns) : time.status();
  }
  if (!value.ok()) return value.status();
  return static_cast<double>(*value);
}

// In (0, 1].
double Uniform(Rng& rng) {
  constexpr double kUnit = 1.0 / 9'007'199'254'740'992.0;
  return static_cast<double>((rng.Next() >> 11) + 1) * kUnit;
}

double Normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(Uniform(rng)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(rng));
}

}  // namespace

absl::StatusOr<Distribution> Distribution::Parse(const std::string& text,
                                                 Unit unit) {
  Distribution distribution;
  distribution.text_ = text;
  double shares = 0;
  const std::vector<std::string> parts = absl::StrSplit(text, '+');
  for (const std::string& part : parts) {
    std::string term_text = Trimmed(part);
    double share = 100;
    if (const size_t percent = term_text.find('%'); percent != term_text.npos) {
      const auto number = ParseNumber(Trimmed(term_text.substr(0, percent)));
      if (!number.ok()) return number.status();
      share = *number;
      term_text = Trimmed(term_text.substr(percent + 1));
    } else if (parts.size() > 1) {
      return Bad(absl::StrCat("\"", term_text,
                              "\" has no share, as \"40% \", in a mixture"));
    }
    absl::StatusOr<Term> term = ParseTerm(term_text, unit);
    if (!term.ok()) return term.status();
    term->share = share / 100;
    shares += share;
    distribution.terms_.push_back(*std::move(term));
  }
  if (std::abs(shares - 100) > 0.01) {
    return Bad(absl::StrCat("the shares in \"", text, "\" add up to ", shares,
                            " %, not to 100 %"));
  }
  return distribution;
}

absl::StatusOr<Distribution::Term> Distribution::ParseTerm(
    const std::string& text, Unit unit) {
  Term term;
  const size_t open = text.find('(');
  if (open == text.npos) {
    const auto value = ParseValue(text, unit);
    if (!value.ok()) return value.status();
    term.a = *value;
    return term;
  }
  struct Form {
    std::string_view name;
    Shape shape;
    size_t values;   // first arguments, with a unit
    size_t numbers;  // of arguments in all
  };
  static constexpr std::array<Form, 5> kForms = {
      {{"uniform", Shape::kUniform, 2, 2},
       {"exp", Shape::kExp, 1, 1},
       {"lognormal", Shape::kLognormal, 1, 2},
       {"pareto", Shape::kPareto, 1, 3},
       {"file", Shape::kFile, 0, 1}}};
  const std::string name = Trimmed(text.substr(0, open));
  const auto form = std::ranges::find(kForms, name, &Form::name);
  if (form == kForms.end() || !text.ends_with(')')) {
    return Bad(absl::StrCat("\"", text,
                            "\" is no distribution: uniform(a, b), exp(mean), "
                            "lognormal(median, sigma), pareto(min, shape, max) "
                            "or file(path)"));
  }
  const std::string inside = text.substr(open + 1, text.size() - open - 2);
  term.shape = form->shape;
  if (form->shape == Shape::kFile) {
    const absl::Status status = ReadValues(Trimmed(inside), unit, term);
    if (!status.ok()) return status;
    return term;
  }
  const std::vector<std::string> arguments = absl::StrSplit(inside, ',');
  if (arguments.size() != form->numbers) {
    return Bad(absl::StrCat("\"", text, "\" has ", arguments.size(),
                            " arguments, not ", form->numbers));
  }
  const std::array<double*, 3> places = {&term.a, &term.b, &term.c};
  for (size_t i = 0; i < arguments.size(); ++i) {
    // The last argument of pareto is a value again.
    const bool has_unit = i < form->values || i == 2;
    const std::string argument = Trimmed(arguments[i]);
    const auto value =
        has_unit ? ParseValue(argument, unit) : ParseNumber(argument);
    if (!value.ok()) return value.status();
    *places[i] = *value;
  }
  if ((term.shape == Shape::kUniform && term.a > term.b) ||
      (term.shape == Shape::kPareto &&
       (term.a <= 0 || term.b <= 0 || term.a > term.c)) ||
      (term.shape == Shape::kLognormal && term.b > 10)) {
    return Bad(absl::StrCat("\"", text, "\" is out of range"));
  }
  return term;
}

absl::Status Distribution::ReadValues(const std::string& path, Unit unit,
                                      Term& term) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, kMostFileBytes);
  if (!text.ok()) return text.status();
  term.counts_before = {0};
  size_t number = 0;
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (const std::string& raw : lines) {
    ++number;
    const std::string line = Trimmed(raw);
    if (line.empty()) continue;
    const size_t blank = line.find_first_of(" \t");
    const auto value = ParseValue(line.substr(0, blank), unit);
    auto count = absl::StatusOr<double>(1.0);
    if (blank != line.npos) count = ParseNumber(Trimmed(line.substr(blank)));
    for (const absl::Status& status : {value.status(), count.status()}) {
      if (status.ok()) continue;
      return absl::DataLossError(
          absl::StrCat(path, ":", number, ": ", status.message()));
    }
    term.values.push_back(*value);
    term.counts_before.push_back(term.counts_before.back() + *count);
  }
  if (term.values.empty() || term.counts_before.back() <= 0) {
    return absl::DataLossError(absl::StrCat(path, ": has no value"));
  }
  return absl::OkStatus();
}

double Distribution::DrawFrom(const Term& term, Rng& rng) {
  switch (term.shape) {
    case Shape::kFixed:
      return term.a;
    case Shape::kUniform:
      return term.a + std::floor((1 - Uniform(rng)) * (term.b - term.a + 1));
    case Shape::kExp:
      return -term.a * std::log(Uniform(rng));
    case Shape::kLognormal:
      return term.a * std::exp(term.b * Normal(rng));
    case Shape::kPareto: {
      // The inverse of the distribution function that ends at c.
      const double tail = std::pow(term.a / term.c, term.b);
      return term.a *
             std::pow(1 - (1 - Uniform(rng)) * (1 - tail), -1 / term.b);
    }
    case Shape::kFile: {
      const double at = (1 - Uniform(rng)) * term.counts_before.back();
      const auto above = std::upper_bound(term.counts_before.begin() + 1,
                                          term.counts_before.end() - 1, at);
      return term
          .values[static_cast<size_t>(above - term.counts_before.begin() - 1)];
    }
  }
  return 0;
}

int64_t Distribution::Draw(Rng& rng) const {
  double at = terms_.size() == 1 ? 0 : 1 - Uniform(rng);
  for (const Term& term : terms_) {
    at -= term.share;
    if (at < 0 || &term == &terms_.back()) {
      const double value = DrawFrom(term, rng);
      return static_cast<int64_t>(std::min(value, kMostValue) + 0.5);
    }
  }
  return 0;
}

}  // namespace snf
