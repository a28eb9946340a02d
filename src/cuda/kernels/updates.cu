// The update of AdamW.
// SPDX-License-Identifier: Apache-2.0

/// AdamW (Loshchilov and Hutter 2019, algorithm 2), and the new value rounded to `weight`: a thread
/// per 4 values. Any alignment; every operation is an intrinsic, so that a value's bits do not
/// depend on its position.
extern "C" __global__ void __launch_bounds__(256) adamw(Update all) {
  const int i = item_of_block(all);
  const Updated one = all.of[i];
  const Index begin =
      Update::kOfBlock * (static_cast<Index>(blockIdx.x) - all.begins[i]) + threadIdx.x;
  const float divisor = all.divisor != nullptr ? *all.divisor : 1;
  const float kept = __fmaf_rn(-all.rate, all.decay, 1.0F);
  const float step = __fdiv_rn(all.rate, all.correction1);
  float value[4], gradient[4], first[4], second[4];
  for (int k = 0; k < 4; ++k) {  // all loads before the first store
    const Index at = begin + 256 * k;
    if (at >= one.count) break;
    value[k] = one.value[at];
    gradient[k] = one.gradient[at];
    first[k] = one.first[at];
    second[k] = one.second[at];
  }
  for (int k = 0; k < 4; ++k) {
    const Index at = begin + 256 * k;
    if (at >= one.count) return;
    const float g = all.divisor != nullptr ? __fdiv_rn(gradient[k], divisor) : gradient[k];
    const float m = __fmaf_rn(all.beta1, first[k], __fmul_rn(1.0F - all.beta1, g));
    const float v = __fmaf_rn(all.beta2, second[k], __fmul_rn(__fmul_rn(1.0F - all.beta2, g), g));
    const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), all.correction2), all.epsilon);
    const float result = __fmaf_rn(-step, __fdiv_rn(m, root), __fmul_rn(kept, value[k]));
    one.value[at] = result;
    one.first[at] = m;
    one.second[at] = v;
    if (one.weight != nullptr) one.weight[at] = narrow(result);
  }
}
