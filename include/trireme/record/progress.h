// Progress lines of a run on the terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <deque>
#include <ostream>
#include <string>

namespace trireme::record {

struct ProgressOptions {
  bool is_terminal = false;     ///< one line, rewritten in place; else plain lines
  std::int64_t steps = 1;       ///< steps of the whole run
  std::int64_t first_step = 0;  ///< steps done before, by the run that this one resumes
  std::int64_t log_every = 10;  ///< plain lines: every n-th step, and the first and the last
  std::string unit = "tokens";  ///< "examples" for a chain without tokens
};

/// Lines "step  20/300  loss 2.3145  12.3k tokens/s  1:20 min left"; speed and time left are those
/// of the last 16 steps. Every line is flushed.
class Progress {
 public:
  /// `out` outlives this object. `now` is any clock's time, the same clock's in all calls.
  Progress(std::ostream& out, ProgressOptions options, Seconds now);

  /// `done` steps have ended, the last with `loss`; `tokens` are those of all steps that this
  /// object was told of.
  void step(std::int64_t done, double loss, std::int64_t tokens, Seconds now);

  /// "step 100/300  validation loss 2.2010", a line that stays.
  void validation(std::int64_t done, double loss);

  /// "step 100/300  checkpoint of 34.2 MiB in 120 ms", likewise; and how long steps were held up,
  /// where that was less.
  void saved(std::int64_t done, Bytes size, Seconds time, Seconds held);

  /// Ends the terminal's line, so that what is printed next starts on its own. Harmless to repeat.
  void close();

 private:
  void stay(std::int64_t done, const std::string& text);

  struct Mark {
    std::int64_t done;
    std::int64_t tokens;
    Seconds time;
  };

  std::string place(std::int64_t done) const;
  bool is_due(std::int64_t done, Seconds now) const;

  std::ostream& out_;
  ProgressOptions options_;
  std::deque<Mark> marks_;
  Seconds drawn_;  ///< when the terminal's line was last rewritten
  bool line_is_open_ = false;
};

}  // namespace trireme::record
