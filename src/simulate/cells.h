// Which values a rank holds, by micro-batch and layer, one bit each.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::simulate {

/// Where a value of (layer, micro-batch) may be.
enum class Mark : std::uint8_t {
  kOutput = 1,           ///< x[i] by itself on the device
  kOutputOffloaded = 2,  ///< x[i] by itself in the offload tier
  kTape = 4,             ///< tape i, x[i] inside, on the device
  kTapeOffloaded = 8,    ///< tape i in the offload tier
  kGradient = 16,        ///< the gradient of x[i]
  kTarget = 32,          ///< the target of the loss
  kBareTape = 64,        ///< tape i on the device, x[i] not inside
  kPending = 128,        ///< what the weight gradients of layer i need
};
inline constexpr Mark kMarks[] = {Mark::kOutput,        Mark::kOutputOffloaded, Mark::kTape,
                                  Mark::kTapeOffloaded, Mark::kGradient,        Mark::kTarget,
                                  Mark::kBareTape,      Mark::kPending};

/// A table of marks. Keeps rows only for micro-batches that hold something, so that its size grows
/// with what is in flight, not with the step.
class Cells {
 public:
  /// Layers first..last.
  Cells(int first, int last);

  /// Chooses the micro-batch that the functions below refer to.
  void open(int micro_batch);
  /// Frees the open row if it is empty.
  void close();

  bool has(int layer, Mark mark) const {
    return (cells_[place(layer)] & static_cast<std::uint8_t>(mark)) != 0;
  }
  void set(int layer, Mark mark);
  void clear(int layer, Mark mark);

  /// Marks that are set, over all micro-batches.
  std::int64_t count() const { return count_; }

  /// Calls visit(layer, micro-batch, mark) for every mark, by micro-batch and layer.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t m = 0; m < row_of_.size(); ++m) {
      if (row_of_[m] < 0) continue;
      for (std::size_t i = 0; i < width_; ++i) {
        const std::uint8_t cell = cells_[static_cast<std::size_t>(row_of_[m]) * width_ + i];
        for (const Mark mark : kMarks) {
          if ((cell & static_cast<std::uint8_t>(mark)) != 0)
            visit(first_ + static_cast<int>(i), static_cast<int>(m), mark);
        }
      }
    }
  }

 private:
  std::size_t place(int layer) const {
    return row_ * width_ + static_cast<std::size_t>(layer - first_);
  }

  int first_;
  std::size_t width_;
  std::vector<std::uint8_t> cells_;
  std::vector<std::int32_t> row_of_;  // by micro-batch; -1: none
  std::vector<std::int32_t> in_row_;  // marks of each row
  std::vector<std::int32_t> free_;
  std::size_t row_ = 0;
  std::size_t micro_batch_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace trireme::simulate
