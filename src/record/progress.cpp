// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/progress.h"

#include "numbers.h"

#include "trireme/core/text.h"
#include "trireme/io/terminal.h"

#include <utility>

namespace trireme::record {
namespace {

/// Steps over which speed is averaged: enough to be smooth, few enough to forget a slow start.
constexpr std::size_t kWindow = 16;

/// Least time between redraws: more often than an eye follows only costs time.
constexpr Seconds kRedraw{0.1};

/// Back to the line's start, and clear to its end (ECMA-48 EL).
constexpr const char* kRestart = "\r\x1b[K";

}  // namespace

Progress::Progress(std::ostream& out, ProgressOptions options, Seconds now)
    : out_(out),
      options_(std::move(options)),
      marks_{{.done = options_.first_step, .tokens = 0, .time = now}},
      drawn_(now) {}

void Progress::step(std::int64_t done, double loss, std::int64_t tokens, Seconds now) {
  marks_.push_back({.done = done, .tokens = tokens, .time = now});
  if (marks_.size() > kWindow + 1) marks_.pop_front();
  if (!is_due(done, now)) return;

  std::string text = concat(place(done), "  loss ", fixed(loss, 4));
  const Seconds passed = now - marks_.front().time;
  const auto steps = static_cast<double>(done - marks_.front().done);
  if (passed > Seconds(0) && steps > 0) {
    const double rate = static_cast<double>(tokens - marks_.front().tokens) / passed.count();
    text += concat("  ", speed(rate), " ", options_.unit, "/s");
    const auto left = static_cast<double>(options_.steps - done);
    if (left > 0) text += concat("  ", to_text(passed * (left / steps)), " left");
  }
  if (options_.is_terminal) {
    io::write_as_is(out_, kRestart);
    out_ << text << std::flush;
    line_is_open_ = true;
    drawn_ = now;
  } else {
    out_ << text + "\n" << std::flush;
  }
}

void Progress::validation(std::int64_t done, double loss) {
  stay(done, concat("validation loss ", fixed(loss, 4)));
}

void Progress::saved(std::int64_t done, Bytes size, Seconds time, Seconds held) {
  std::string text = concat("checkpoint of ", to_text(size), " in ", to_text(time));
  if (held < time) text += concat(", steps held up for ", to_text(held));
  stay(done, text);
}

void Progress::stay(std::int64_t done, const std::string& text) {
  if (std::exchange(line_is_open_, false)) io::write_as_is(out_, kRestart);
  out_ << concat(place(done), "  ", text, "\n") << std::flush;
}

void Progress::close() {
  if (std::exchange(line_is_open_, false)) out_ << std::endl;
}

std::string Progress::place(std::int64_t done) const {
  const std::string all = concat(options_.steps);
  std::string number = concat(done);
  if (number.size() < all.size()) number.insert(0, all.size() - number.size(), ' ');
  return concat("step ", number, "/", all);
}

bool Progress::is_due(std::int64_t done, Seconds now) const {
  const bool is_end = done == options_.first_step + 1 || done >= options_.steps;
  if (options_.is_terminal) return is_end || now - drawn_ >= kRedraw;
  return is_end || done % options_.log_every == 0;
}

}  // namespace trireme::record
