// Rotary positions and SwiGLU.
// SPDX-License-Identifier: Apache-2.0

/// Rotary positions (Su et al. 2021): in every head of x [rows, heads x 2 half] the values i and
/// i + half are turned by the angle of (row modulo tokens, i), whose cosines and sines are
/// [tokens, half]; by its opposite with a `direction` of -1, which is the backward. A thread per 8
/// pairs, of which there are `count` times 8; half is a multiple of 8.
extern "C" __global__ void __launch_bounds__(256)
    turn(const bf16* x, const float* cosines, const float* sines, bf16* y, Index count,
         Index tokens, int heads, int half, float direction) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const int of_head = half / 8;
  const Index head = mine / of_head, first = 8 * (mine % of_head);
  const Index place = head * 2 * half + first;
  const Index angle = head / heads % tokens * half + first;
  const Eight a = *reinterpret_cast<const Eight*>(x + place);
  const Eight b = *reinterpret_cast<const Eight*>(x + place + half);
  Four c[2], s[2];
  for (int k = 0; k < 2; ++k) {
    c[k] = *reinterpret_cast<const Four*>(cosines + angle + 4 * k);
    s[k] = *reinterpret_cast<const Four*>(sines + angle + 4 * k);
  }
  Eight turned_a, turned_b;
  for (int j = 0; j < 8; ++j) {
    const float cosine = c[j / 4].of[j % 4], sine = direction * s[j / 4].of[j % 4];
    turned_a.of[j] = narrow(wide(a.of[j]) * cosine - wide(b.of[j]) * sine);
    turned_b.of[j] = narrow(wide(b.of[j]) * cosine + wide(a.of[j]) * sine);
  }
  put(y + place, turned_a);
  put(y + place + half, turned_b);
}

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + __expf(-x));
}

/// y = silu(gate) up (Shazeer 2020), for `count` times 8 values, a thread per 8.
extern "C" __global__ void __launch_bounds__(256)
    swiglu(const bf16* gate, const bf16* up, bf16* y, Index count) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const Eight g = reinterpret_cast<const Eight*>(gate)[mine];
  const Eight u = reinterpret_cast<const Eight*>(up)[mine];
  Eight result;
  for (int j = 0; j < 8; ++j)
    result.of[j] = narrow(wide(g.of[j]) * sigmoid(wide(g.of[j])) * wide(u.of[j]));
  put(y + 8 * mine, result);
}

/// Its backward: with s = sigmoid(gate), the gradients dy up s (1 + gate (1 - s)) and dy gate s.
extern "C" __global__ void __launch_bounds__(256)
    swiglu_backward(const bf16* dy, const bf16* gate, const bf16* up, bf16* of_gate, bf16* of_up,
                    Index count) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const Eight d = reinterpret_cast<const Eight*>(dy)[mine];
  const Eight g = reinterpret_cast<const Eight*>(gate)[mine];
  const Eight u = reinterpret_cast<const Eight*>(up)[mine];
  Eight for_gate, for_up;
  for (int j = 0; j < 8; ++j) {
    const float x = wide(g.of[j]), s = sigmoid(x), of_y = wide(d.of[j]);
    for_gate.of[j] = narrow(of_y * wide(u.of[j]) * s * (1.0F + x * (1.0F - s)));
    for_up.of[j] = narrow(of_y * x * s);
  }
  put(of_gate + 8 * mine, for_gate);
  put(of_up + 8 * mine, for_up);
}
