// What a part of a chain's step may cost with how much memory: labels, of which none beats another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trireme::poet {

/// What is paid. It adds up along a schedule.
struct Cost {
  double value = 0;    ///< joules or seconds, whichever is minimized
  double time = 0;     ///< seconds
  double outside = 0;  ///< bytes copied out

  Cost& operator+=(const Cost& other);
  friend Cost operator+(Cost a, const Cost& b) { return a += b; }
};

/// What a second and a byte outside count, in what is minimized.
struct Price {
  double time = 0, outside = 0;

  double of(const Cost& cost) const {
    return cost.value + time * cost.time + outside * cost.outside;
  }
};

/// What a part begins with; chain_tables.h says what follows.
enum class Move : std::uint8_t {
  kPass,       ///< nothing
  kFetch,      ///< the source comes to memory
  kSend,       ///< the gradient is copied out
  kBackward,   ///< the backward of the last layer, with what it reads
  kRun,        ///< forwards up to layer `at`, whose output stays in memory
  kRunAndSend  ///< the same; its output is copied out
};

/// A label of another part.
struct Rest {
  int front = -1;  ///< -1: none
  int label = 0;
};

struct Choice {
  Move move{};
  int at = 0;
  Rest then = {}, last = {};  ///< the parts that follow, in this order
};

struct Label {
  std::int64_t memory = 0;  ///< bytes with which the part can run
  double price = 0;
  Cost cost = {};
  Choice choice = {};
};

/// Labels in ascending order of memory.
using Front = std::vector<Label>;

/// Which labels are worth keeping.
struct Screen {
  double excess = 0;       ///< by how much dearer than the cheapest one with its memory a label may
                           ///< be; 0: only such that are cheaper than all with less memory
  std::size_t most = 256;  ///< labels of a front
  bool counts_outside = false;  ///< whether bytes outside are scarce
};

/// Collects what may become a front.
class Collection {
 public:
  explicit Collection(const Screen& screen) : screen_(screen) {}

  bool is_wide() const { return screen_.excess > 0; }
  /// Begins with candidates of a choice, in ascending order of memory unless the screen is wide.
  void begin();
  /// Whether a label of this memory and price, the next in order, is worth making.
  bool wants(std::int64_t memory, double price);
  void add(const Label& label) { fresh_.push_back(label); }
  /// Ends what begin() began.
  void end();
  /// All that is worth keeping; the collection is empty afterwards.
  Front take();

 private:
  void screen_wide();

  Screen screen_;
  Front kept_{}, fresh_{}, merged_{};
  std::size_t at_ = 0;  ///< in kept_, the first with more memory than what was asked for last
  double least_ = std::numeric_limits<double>::infinity();  ///< price before it
};

}  // namespace trireme::poet
