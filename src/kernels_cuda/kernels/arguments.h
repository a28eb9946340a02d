// What the host hands to a kernel as one argument, for both of them: types bf16 and Index come
// first.
// SPDX-License-Identifier: Apache-2.0

/// What `sum_parts` adds up: `columns` columns of `parts`, which has `rows` rows `stride` apart. To
/// `wide_sums`, where this is there (with `is_first` as they are, else added to what is there),
/// else rounded to `sums`.
struct PartSum {
  const float* parts;
  bf16* sums;
  float* wide_sums;
  int rows, is_first;
  Index stride, columns;
};

struct PartSums {
  static constexpr int kMost = 16;
  static constexpr int kOfBlock = 32;  ///< columns
  PartSum of[kMost];
  int begins[kMost];  ///< the first block of each
  int count;
};

/// What `adamw` updates: a parameter, or a part of one, with what belongs to it.
struct Updated {
  float* value;
  const float* gradient;
  float* first;   ///< moment
  float* second;  ///< moment
  bf16* weight;   ///< the value in bfloat16, or null
  Index count;
};

struct Update {
  static constexpr int kMost = 64;
  static constexpr int kOfBlock = 1024;  ///< values
  Updated of[kMost];
  int begins[kMost];  ///< the first block of each
  int count;
  float rate, decay, beta1, beta2, epsilon;
  float correction1, correction2;  ///< 1 - beta1^step, sqrt(1 - beta2^step)
  const float* divisor;            ///< of the gradients, or null
};
