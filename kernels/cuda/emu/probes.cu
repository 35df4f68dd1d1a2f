// Kernels that test the emulator itself, compiled into it alone: for each diagnostic one that provokes it where wrong is 1,
// and is right where wrong is 0; and the collective instructions, each alone. All run as one block of 64 threads, if the
// test does not say otherwise.
#include "../common.cuh"

KERNEL probe_add(int* y, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
// Where a thread is, and the grid: 12 words a thread.
KERNEL probe_index(unsigned* y) {
  unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned* p = y + 12 * (b * blockDim.x * blockDim.y * blockDim.z + t);
  p[0] = threadIdx.x, p[1] = threadIdx.y, p[2] = threadIdx.z;
  p[3] = blockIdx.x, p[4] = blockIdx.y, p[5] = blockIdx.z;
  p[6] = blockDim.x, p[7] = blockDim.y, p[8] = blockDim.z;
  p[9] = gridDim.x, p[10] = gridDim.y, p[11] = gridDim.z;
}

// --- global memory

KERNEL probe_bounds(int* y, int wrong) { y[threadIdx.x + wrong] = 1; }  // of 64 words
KERNEL probe_below(int* y, int wrong) { y[(int)threadIdx.x - wrong] = 1; }
KERNEL probe_alignment(int* y, int wrong) { *(int*)((char*)y + (wrong ? 2 : 4)) = 1; }
KERNEL probe_vector_alignment(float* y, int wrong) { *(float4*)(y + (wrong ? 2 : 4)) = make_float4(1, 2, 3, 4); }
KERNEL probe_read(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }
KERNEL probe_stack(int* y, int wrong) {
  __shared__ int* p[64];
  int mine = threadIdx.x;
  p[threadIdx.x] = &mine;
  __syncthreads();
  y[threadIdx.x] = *p[wrong ? threadIdx.x ^ 1 : threadIdx.x];
  __syncthreads();
}
KERNEL probe_assert(int* y, int wrong) { assert(y && !wrong); }
KERNEL probe_trap(int* y, int wrong) {
  if (wrong && threadIdx.x == 5) __trap();
  y[threadIdx.x] = 0;
}

// --- shared memory

KERNEL probe_dynamic_bounds(int* y, int wrong) {  // with 4 bytes a thread
  DYN_SMEM(int, s);
  s[threadIdx.x + wrong] = 1;
  y[threadIdx.x] = s[threadIdx.x + wrong];
}
KERNEL probe_uninitialised(int* y, int wrong) {
  __shared__ int s[64];
  if (!wrong || threadIdx.x != 40) s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}
KERNEL probe_read_after_write(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  s[threadIdx.x] = threadIdx.x + 1;
  if (!wrong) __syncthreads();
  y[threadIdx.x] = s[threadIdx.x ^ 32];
}
KERNEL probe_write_after_read(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int v = s[threadIdx.x ^ 32];
  if (!wrong) __syncthreads();
  s[threadIdx.x] = v;
  y[threadIdx.x] = v;
}
// Read by both warps, so that no single reader stands for all.
KERNEL probe_write_after_reads(int* y, int wrong) {
  __shared__ int s[1];
  if (threadIdx.x == 0) s[0] = 7;
  __syncthreads();
  y[threadIdx.x] = s[0];
  if (!wrong) __syncthreads();
  if (threadIdx.x == 63) s[0] = 8;
}
KERNEL probe_write_after_write(int* y, int wrong) {
  __shared__ int s[1];
  if (threadIdx.x == 0) s[0] = 1;
  if (!wrong) __syncthreads();
  if (threadIdx.x == 33) s[0] = 2;
  __syncthreads();
  y[threadIdx.x] = s[0];
}
KERNEL probe_warp_race(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  if (!wrong) __syncwarp();
  int v = s[threadIdx.x ^ 1];
  if (!wrong) __syncwarp();
  s[threadIdx.x] = v;
  y[threadIdx.x] = v;
}
// __syncwarp orders a warp's own accesses and no others.
KERNEL probe_warp_sync_is_no_barrier(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  if (wrong)
    __syncwarp();
  else
    __syncthreads();
  y[threadIdx.x] = s[threadIdx.x ^ 32];
}
KERNEL probe_shuffle_is_no_fence(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  int v = __shfl_xor_sync(0xffffffffu, 1, 1);
  if (!wrong) __syncwarp();
  y[threadIdx.x] = s[threadIdx.x ^ 1] + v;
}
KERNEL probe_atomic_race(int* y, int wrong) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(&s, 1);
  if (!wrong) __syncthreads();
  y[threadIdx.x] = s;
}

// Beyond an array, and still in shared memory.
KERNEL probe_array_bounds(int* y, int wrong) {
  __shared__ int s[2][64];
  s[0][threadIdx.x] = s[1][threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[0][threadIdx.x + wrong];
}
KERNEL probe_shift(int* y, int wrong) { y[threadIdx.x] = 1 << (31 + wrong); }
KERNEL probe_division(int* y, int wrong) { y[threadIdx.x] = (int)threadIdx.x / (1 - wrong); }

// --- cp.async

// wrong: 1 reads before the wait, 2 reads another thread's before a barrier, 3 never waits, 4 waits before the commit.
KERNEL probe_copy(int* y, const int* x, int wrong) {
  __shared__ __align__(16) int s[64 * 4];
  int t = threadIdx.x;
  cp_async16(s + 4 * t, x + 4 * t);
  if (wrong != 4) cp_async_commit();
  if (wrong == 3) return;
  if (wrong != 1) cp_async_wait<0>();
  if (wrong != 2) __syncthreads();
  for (int i = 0; i < 4; i++) y[4 * t + i] = s[4 * (t ^ 32) + i];
  cp_async_wait<0>();
}
// Two stages under way: after a wait for all but one group the first is there, and the second is not.
KERNEL probe_copy_groups(int* y, const int* x, int wrong) {
  __shared__ __align__(16) int s[2][64];
  int t = threadIdx.x;
  for (int stage = 0; stage < 2; stage++) {
    if (t < 16) cp_async16(&s[stage][4 * t], x + 64 * stage + 4 * t);
    cp_async_commit();
  }
  cp_async_wait<1>();
  __syncthreads();
  y[t] = s[wrong ? 1 : 0][t];
  cp_async_wait<0>();
  __syncthreads();
  y[64 + t] = s[1][t];
}
KERNEL probe_copy_zeros(int* y, const int* x, int valid) {
  __shared__ __align__(16) int s[64 * 4];
  int t = threadIdx.x;
  cp_async16_zfill(s + 4 * t, x + 4 * t, t < valid);
  cp_async_commit();
  cp_async_wait<0>();
  for (int i = 0; i < 4; i++) y[4 * t + i] = s[4 * t + i];
}
// wrong: 1 to a global address, 2 from a shared one, 3 from an address that is not a multiple of 16.
KERNEL probe_copy_address(int* y, const int* x, int wrong) {
  __shared__ __align__(16) int s[8];
  if (threadIdx.x) return;
  for (int i = 0; i < 8; i++) s[i] = i;
  cp_async16(wrong == 1 ? y : s, wrong == 2 ? s + 4 : x + (wrong == 3));
  cp_async_commit();
  cp_async_wait<0>();
  y[0] = s[0];
}

// --- masks and meetings

KERNEL probe_own_bit(int* y, int wrong) { y[threadIdx.x] = __shfl_sync(wrong ? 0xfffffffeu : 0xffffffffu, (int)threadIdx.x, 1); }
KERNEL probe_returned_lanes(unsigned* y, int wrong) {
  if (threadIdx.x & 16) return;
  y[threadIdx.x] = __ballot_sync(wrong ? 0xffffffffu : 0x0000ffffu, 1);
}
KERNEL probe_source_lane(int* y, int wrong) {
  if ((threadIdx.x & 31) < 16) y[threadIdx.x] = __shfl_sync(0xffffu, (int)threadIdx.x, wrong ? 20 : 3);
}
KERNEL probe_mask_difference(int* y, int wrong) {
  if ((threadIdx.x & 31) < 4) y[threadIdx.x] = __shfl_sync(wrong && threadIdx.x & 1 ? 3u : 15u, (int)threadIdx.x, 0);
}
KERNEL probe_mixed_meeting(unsigned* y, int wrong) {
  unsigned v;
  if (wrong && threadIdx.x & 1)
    v = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
  else
    v = __ballot_sync(0xffffffffu, 1);
  y[threadIdx.x] = v;
}
KERNEL probe_deadlock(int* y, int wrong) {
  if (wrong && threadIdx.x == 3)
    __syncthreads();
  else
    __syncwarp();
  y[threadIdx.x] = 1;
  if (!(wrong && threadIdx.x == 3)) __syncthreads();
}

// --- collectives

// 16 words a thread.
KERNEL probe_warp(unsigned* y) {
  unsigned t = threadIdx.x, l = t & 31, *p = y + 16 * t;
  p[0] = __shfl_sync(0xffffffffu, t, 5);
  p[1] = __shfl_sync(0xffffffffu, t, l + 3, 8);
  p[2] = __shfl_xor_sync(0xffffffffu, t, 16);
  p[3] = __shfl_down_sync(0xffffffffu, t, 2u);
  p[4] = __shfl_down_sync(0xffffffffu, t, 2u, 4);
  p[5] = __shfl_up_sync(0xffffffffu, t, 3u);
  p[6] = __ballot_sync(0xffffffffu, t % 3 == 0);
  p[7] = __any_sync(0xffffffffu, t == 40);
  p[8] = __all_sync(0xffffffffu, t < 40);
  p[9] = __float_as_uint(warp_sum(1.f / (t + 1)));
  float s = 1.f / (t + 1);
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
  p[10] = __float_as_uint(s);
  p[11] = __float_as_uint(warp_max(t == 37 ? 100.f : (float)l));
  p[12] = __syncthreads_count(t % 5 == 0);
  p[13] = __syncthreads_or(t == 63);
  p[14] = __syncthreads_and(t != 63);
  double d = __shfl_sync(0xffffffffu, (double)t, 7);
  p[15] = (unsigned)d;
}
// Halves of a warp in meetings of their own, different numbers of them, then all.
KERNEL probe_halves(unsigned* y) {
  unsigned l = threadIdx.x & 31, mask = l < 16 ? 0xffffu : 0xffff0000u, v = threadIdx.x;
  for (unsigned i = 0; i < (l < 16 ? 3u : 1u); i++) v = __shfl_xor_sync(mask, v, 1) + 100;
  y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v, 16);
}
// x: matrices of 8 rows of 8 values, 4 of them; a word each lane and matrix.
KERNEL probe_ldmatrix(unsigned* y, const unsigned* x, int count, int transposed) {
  __shared__ __align__(16) unsigned s[128];
  for (int i = threadIdx.x; i < 128; i += 32) s[i] = x[i];
  __syncthreads();
  uint32_t r[4] = {0, 0, 0, 0};
  const void* row = s + 4 * (threadIdx.x % (8 * count));
  if (count == 4 && transposed)
    ldmatrix4_trans(r, row);
  else if (count == 4)
    ldmatrix4(r, row);
  else if (transposed)
    ldmatrix2_trans(r, row);
  else
    ldmatrix2(r, row);
  for (int i = 0; i < 4; i++) y[4 * threadIdx.x + i] = r[i];
}
// Fragments as they are: a 4 words a lane, b 2, d 4.
KERNEL probe_mma(float* d, const unsigned* a, const unsigned* b, int half) {
  float c[4];
  uint32_t u[4], v[2];
  for (int i = 0; i < 4; i++) c[i] = d[4 * threadIdx.x + i], u[i] = a[4 * threadIdx.x + i];
  for (int i = 0; i < 2; i++) v[i] = b[2 * threadIdx.x + i];
  if (half)
    mma_f16(c, u, v);
  else
    mma_bf16(c, u, v);
  for (int i = 0; i < 4; i++) d[4 * threadIdx.x + i] = c[i];
}
// One float to 16 bits and back: bf16, f16, and both packed.
KERNEL probe_convert(unsigned* y, const float* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    bf16 b = f2bf(x[i]);
    f16 h = f2h(x[i]);
    y[4 * i] = __float_as_uint(bf2f(b));
    y[4 * i + 1] = __float_as_uint(h2f(h));
    y[4 * i + 2] = pack_bf16(x[i], 1.f);
    y[4 * i + 3] = pack_f16(x[i], 1.f);
  }
}
// Each block adds its part; the last one to come, by an atomic, writes the sum of the parts.
KERNEL probe_last_block(int* sum, int* parts, int* counter) {
  __shared__ int last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = (int)blockIdx.x + 1;
    __threadfence();
    last = atomicAdd(counter, 1) == (int)gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  int s = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += 32) s += parts[i];
  s = (int)warp_sum((float)s);
  if (threadIdx.x == 0) *sum = s;
}

EMU_KERNELS(probe_add, probe_index, probe_bounds, probe_below, probe_alignment, probe_vector_alignment, probe_read, probe_stack, probe_assert, probe_trap)
EMU_KERNELS(probe_dynamic_bounds, probe_uninitialised, probe_read_after_write, probe_write_after_read, probe_write_after_reads, probe_write_after_write, probe_warp_race,
            probe_warp_sync_is_no_barrier, probe_shuffle_is_no_fence, probe_atomic_race, probe_array_bounds, probe_shift, probe_division)
EMU_KERNELS(probe_copy, probe_copy_groups, probe_copy_zeros, probe_copy_address, probe_own_bit, probe_returned_lanes, probe_source_lane, probe_mask_difference, probe_mixed_meeting,
            probe_deadlock)
EMU_KERNELS(probe_warp, probe_halves, probe_ldmatrix, probe_mma, probe_convert, probe_last_block)
