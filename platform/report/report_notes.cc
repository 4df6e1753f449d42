// SPDX-License-Identifier: Apache-2.0
#include "platform/report/report_notes.h"

#include "base/packet/packet_parser.h"
#include "base/quantity.h"
#include "base/text/wording.h"
#include "fmt/format.h"

namespace snf {
namespace {

// Explains why a capture's own answers are dropped where far ends are emulated.
std::string OfAnswers(const RunOptions& options, const RunResult& result) {
  const uint64_t dropped =
      result.dropped[static_cast<size_t>(DropReason::kNotTranslated)];
  if (dropped == 0 || !result.live.ports.empty()) return "";
  const bool is_one = dropped == 1;
  return fmt::format(
      "{} {} packets that had not left translated{}, and {} dropped "
      "(not_translated). An answer comes at the capture's time, also while its "
      "question waits for a unit, or is never translated.",
      Plural(dropped, "packet"), is_one ? "answers" : "answer",
      options.inside.empty()
          ? ""
          : (is_one ? ", or stays on the inside" : ", or stay on the inside"),
      is_one ? "was" : "were");
}

}  // namespace

std::vector<std::string> NotesOf(const RunOptions& options,
                                 const RunResult& result, const RunInfo& info) {
  std::vector<std::string> notes;
  if (info.is_interrupted) {
    notes.emplace_back(
        "Interrupted: the packets that had not been taken yet are not in these "
        "figures.");
  }
  if (result.aliases.has_sides && options.inside.empty() &&
      result.live.ports.empty()) {
    notes.emplace_back(
        "Without --inside, the end that sends first was taken for the inside: "
        "a server, too, where the capture begins amid a connection.");
  }
  if (const std::string note = OfAnswers(options, result); !note.empty()) {
    notes.push_back(note);
  }
  for (const std::string& warning : info.warnings) {
    notes.push_back(Printable(warning));
  }
  if (result.late_packets > 0) {
    notes.push_back(
        Plural(result.late_packets, "packet") +
        " earlier than one before: taken at the latest time before, and so "
        "perhaps many at once. \"snf trace convert --sort IN OUT\" sorts a "
        "capture.");
  }
  const ClassifierCounters& classifier = result.classifier;
  if (classifier.fragments_unmatched > 0) {
    notes.push_back(fmt::format(
        "{} without the first one of the packet; each such packet counts as a "
        "flow of its own.",
        Plural(classifier.fragments_unmatched, "later IP fragment")));
  }
  if (result.fragments_kept > 0) {
    notes.push_back(fmt::format(
        "{} that came before the first one of the packet: {} of them were kept "
        "until it came (--early_fragments).",
        Plural(result.fragments_kept, "IP fragment"),
        FormatCount(result.fragments_kept_matched)));
  }
  std::string reasons;
  for (size_t i = static_cast<size_t>(ParseResult::kNotIp); i < kParseResults;
       ++i) {
    if (classifier.results[i] == 0) continue;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ",
                           FormatCount(classifier.results[i]),
                           Name(static_cast<ParseResult>(i)));
  }
  if (!reasons.empty()) {
    notes.push_back(
        "Packets without a readable IP header, by reason: " + reasons + ".");
  }
  if (result.faults.processes_uncounted > 0) {
    notes.push_back(fmt::format(
        "What units had counted themselves, of state, entries and the NF, is "
        "not in the figures where their process was killed: {}.",
        Plural(result.faults.processes_uncounted, "time")));
  }
  return notes;
}

}  // namespace snf
