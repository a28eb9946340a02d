// Log-likelihood of a softmax, and the gradient of its logits.
// SPDX-License-Identifier: Apache-2.0

/// Target of a position that is not learned (model::kMasked).
constexpr Index kMasked = -100;

/// A block per row of `logits` [rows, columns], of any alignment: the log-softmax at the row's
/// target. With `gradients` the logits become the softmax, less 1 at the target. A row whose target
/// is masked gives zeros. The largest value and the sum are found in one pass (Milakov and
/// Gimelshein 2018, algorithm 3).
extern "C" __global__ void __launch_bounds__(1024)
    log_likelihood(bf16* logits, const Index* targets, float* of_rows, Index columns,
                   int gradients) {
  bf16* const row = logits + blockIdx.x * columns;
  const Index target = targets[blockIdx.x];
  if (target == kMasked) {
    if (threadIdx.x == 0) of_rows[blockIdx.x] = 0;
    if (gradients == 0) return;
    for_each_in_row(
        row, columns, [&](Index i, bf16) { row[i] = narrow(0); },
        [&](Index i, const Eight&) {
          const float zeros[8] = {};
          put(row + i, zeros);
        });
    return;
  }
  if (target < 0 || target >= columns) __trap();
  const float of_target = wide(row[target]);

  constexpr float kLeast = -3.402823466e38F;  // not infinite: a difference of two is a number
  const auto combine = [](Pair a, Pair b) {   // first: the largest value; second: the sum
    const float most = a.first > b.first ? a.first : b.first;
    return Pair{most, a.second * __expf(a.first - most) + b.second * __expf(b.first - most)};
  };
  Pair mine{kLeast, 0};
  for_each_in_row(
      row, columns,
      [&](Index, bf16 x) {
        mine = combine(mine, {wide(x), 1});
      },
      [&](Index, const Eight& x) {
        float most = mine.first;
        for (int j = 0; j < 8; ++j) most = wide(x.of[j]) > most ? wide(x.of[j]) : most;
        float sum = mine.second * __expf(mine.first - most);
        for (int j = 0; j < 8; ++j) sum += __expf(wide(x.of[j]) - most);
        mine = {most, sum};
      });
  int calls = 0;
  const Pair all = over_block(mine, Pair{kLeast, 0}, calls, combine);
  const float logarithm = logf(all.second);
  const float log_p = of_target - all.first - logarithm;
  if (threadIdx.x == 0) of_rows[blockIdx.x] = log_p;
  if (gradients == 0) return;

  const float shift = all.first + logarithm;
  const auto gradient = [&](Index i, bf16 x) {
    return i == target ? expm1f(log_p) : __expf(wide(x) - shift);
  };
  for_each_in_row(
      row, columns, [&](Index i, bf16 x) { row[i] = narrow(gradient(i, x)); },
      [&](Index i, const Eight& x) {
        float of_eight[8];
        for (int j = 0; j < 8; ++j) of_eight[j] = gradient(i + j, x.of[j]);
        put(row + i, of_eight);
      });
}
