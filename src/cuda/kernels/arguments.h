// Arguments that the host passes to kernels for several tensors, for both sides to include after
// the types bf16 and Index.
// SPDX-License-Identifier: Apache-2.0

/// One sum of `sum_parts`: of `columns` columns of `parts`, which has `rows` rows `stride` apart.
/// Written to `wide_sums` if not null (replaces it with `is_first`, else is added), else rounded to
/// `sums`.
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

/// One item of `adamw`: a parameter, or a part of one, with its gradient and state.
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
  const float* divisor;            ///< gradients are divided by it; or null
};
