// Sums of columns, and accumulation of gradients.
// SPDX-License-Identifier: Apache-2.0

/// Adds the sums of 256 columns over a block of 8 warps, each with some of the rows and each lane
/// with 8 of the columns, to this block's row of `parts` [gridDim.y, columns].
__device__ inline void column_part(const float (&sum)[8], float* parts, Index columns) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __shared__ float of_warps[8][256];
  for (int j = 0; j < 8; ++j) of_warps[warp][8 * lane + j] = sum[j];
  __syncthreads();
  const Index mine = 256 * static_cast<Index>(blockIdx.x) + threadIdx.x;
  if (mine >= columns) return;
  float total = 0;
  for (int w = 0; w < 8; ++w) total += of_warps[w][threadIdx.x];
  parts[blockIdx.y * columns + mine] = total;
}

/// Partial sums of the columns of x [rows, columns] to `parts` [gridDim.y, columns]: warp w of
/// block y has every 8 gridDim.y-th row from 8 y + w on.
extern "C" __global__ void __launch_bounds__(256)
    column_parts(const bf16* x, float* parts, Index rows, Index columns) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Index column = 256 * static_cast<Index>(blockIdx.x) + 8 * lane;
  const bool is_there = column < columns;
  float sum[8] = {};
  if (is_there) {
    const Index step = 8 * static_cast<Index>(gridDim.y);
#pragma unroll 4
    for (Index row = 8 * static_cast<Index>(blockIdx.y) + warp; row < rows; row += step) {
      const Eight here = *reinterpret_cast<const Eight*>(x + row * columns + column);
      for (int j = 0; j < 8; ++j) sum[j] += wide(here.of[j]);
    }
  }
  column_part(sum, parts, columns);
}

/// Concatenates three x [rows, width] to y [rows, 3 width], and gives what column_parts would give
/// of y, with its distribution of rows over blocks and warps.
extern "C" __global__ void __launch_bounds__(256)
    side_by_side(const bf16* x0, const bf16* x1, const bf16* x2, bf16* y, float* parts, Index rows,
                 Index width) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Index columns = 3 * width, column = 256 * static_cast<Index>(blockIdx.x) + 8 * lane;
  float sum[8] = {};
  if (column < columns) {
    const Index which = column / width, of_x = column - which * width;
    const bf16* const x = (which == 0 ? x0 : which == 1 ? x1 : x2) + of_x;
    const Index step = 8 * static_cast<Index>(gridDim.y);
#pragma unroll 4
    for (Index row = 8 * static_cast<Index>(blockIdx.y) + warp; row < rows; row += step) {
      const Packed here = packed(x + row * width);
      *reinterpret_cast<Packed*>(y + row * columns + column) = here;
      for (int j = 0; j < 8; ++j) sum[j] += wide(here, j);
    }
  }
  column_part(sum, parts, columns);
}

/// Several independent sums. A block of 32 warps shares the rows of 32 columns of one of them. Any
/// alignment.
extern "C" __global__ void __launch_bounds__(1024) sum_parts(PartSums all) {
  const int i = item_of_block(all);
  const PartSum one = all.of[i];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Index column = PartSums::kOfBlock * (static_cast<Index>(blockIdx.x) - all.begins[i]) + lane;
  float sum = 0;
  if (column < one.columns) {
#pragma unroll 4
    for (int row = warp; row < one.rows; row += 32) sum += one.parts[row * one.stride + column];
  }
  __shared__ float of_warps[32][33];
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= one.columns) return;
  float total = 0;
  for (int w = 0; w < 32; ++w) total += of_warps[w][lane];
  if (one.wide_sums == nullptr)
    one.sums[column] = narrow(total);
  else
    one.wide_sums[column] = one.is_first != 0 ? total : one.wide_sums[column] + total;
}

/// sum += x, or sum = x with `is_first`, for `count` values; a thread per 8 values.
extern "C" __global__ void __launch_bounds__(256)
    accumulate(float* sum, const bf16* x, Index count, int is_first) {
  const Index i = 8 * (static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const auto add = [&](float before, bf16 more) {
    return is_first != 0 ? wide(more) : before + wide(more);
  };
  if (i + 8 > count) {
    for (Index j = i; j < count; ++j) sum[j] = add(sum[j], x[j]);
    return;
  }
  const Eight more = *reinterpret_cast<const Eight*>(x + i);
  for (int half = 0; half < 2; ++half) {
    auto* const place = reinterpret_cast<Four*>(sum + i + 4 * half);
    Four four = is_first != 0 ? Four{} : *place;
    for (int j = 0; j < 4; ++j) four.of[j] = add(four.of[j], more.of[4 * half + j]);
    *place = four;
  }
}
