// Elementwise kernels, and the product with a fixed order. They are compiled when a device is opened, without contraction of
// a·b + c: a fused multiply-add is used only where it is written, as on the CPU. So device and CPU give the same bits in
// `exponential`, `logarithm`, `kernel_values`, `squared_distances`, `ordered_rows` and `ordered_columns`.
//
// Matrices are row-major. The n×n matrix `square` holds squared distances below the diagonal. The triangle above it, with the
// diagonal, holds the kernel matrix and then its factor. Every sum has one order: the same numbers give the same bits.

typedef long long Size;

const unsigned EVERYONE = 0xffffffffu;
const float SAME_POINT = 1e-30f;
const float CLOSE = 1.0f / 256.0f;

// eˣ and ln x, as in device/cpu/elementwise.rs.
__device__ float exponential(float x) {
    const float ROUND = 12582912.0f;
    float shifted = fmaf(x, 1.44269504f, ROUND);
    float k = shifted - ROUND;
    float r = fmaf(k, 2.1219444e-4f, fmaf(k, -0.6933594f, x));
    float series = fmaf(r, 1.0f / 5040.0f, 1.0f / 720.0f);
    series = fmaf(r, series, 1.0f / 120.0f);
    series = fmaf(r, series, 1.0f / 24.0f);
    series = fmaf(r, series, 1.0f / 6.0f);
    series = fmaf(r, series, 0.5f);
    series = fmaf(r, series, 1.0f);
    series = fmaf(r, series, 1.0f);
    return __uint_as_float(__float_as_uint(series) + (__float_as_uint(shifted) << 23));
}

__device__ float logarithm(float x) {
    int exponent = (int)(__float_as_uint(x) - 0x3f3504f3u) >> 23;
    float m = __uint_as_float(__float_as_uint(x) - ((unsigned)exponent << 23));
    float s = (m - 1.0f) / (m + 1.0f);
    float s2 = s * s;
    float series = fmaf(s2, 1.0f / 9.0f, 1.0f / 7.0f);
    series = fmaf(s2, series, 1.0f / 5.0f);
    series = fmaf(s2, series, 1.0f / 3.0f);
    series = fmaf(s2, series, 1.0f);
    return fmaf((float)exponent, 0.693147181f, 2.0f * s * series);
}

// u = (r²/L²)^(q/2): the kernel is exp(-u).
__device__ float power(float squared, float inverse, float half_q) {
    float scaled = fmaxf(squared * inverse, 1.17549435e-38f);
    float u = fminf(exponential(fminf(half_q * logarithm(scaled), 5.0f)), 87.0f);
    return squared < SAME_POINT ? 0.0f : u;
}

__device__ float kernel_value(float squared, float inverse, float half_q) {
    return exponential(-power(squared, inverse, half_q));
}

// The gradient weight -q·K·u/r², with the kernel K.
__device__ float kernel_weight(float squared, float inverse, float half_q, float minus_q) {
    float u = power(squared, inverse, half_q);
    return squared < SAME_POINT ? 0.0f : minus_q * u * exponential(-u) / squared;
}

__device__ double warp_sum(double value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(EVERYONE, value, offset);
    return value;
}

// Σ a·b of every row in order, at least 0. One thread per row.
extern "C" __global__ void row_dots(const float* a, const float* b, Size rows, Size cols, float* out) {
    Size row = (Size)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double sum = 0.0;
    for (Size at = 0; at < cols; at++) sum += (double)a[row * cols + at] * (double)b[row * cols + at];
    out[row] = (float)fmax(sum, 0.0);
}

// Turns inner products into squared distances; close pairs are recomputed from their differences in f64. With `lower` both
// sides are the same points: the part above the diagonal is skipped, and the diagonal is 0. One row per block, in pieces.
extern "C" __global__ void squared_distances(
    float* values, Size rows, Size cols, const float* row_norms, const float* col_norms, const float* row_plain,
    const float* row_mapped, const float* col_plain, const float* col_mapped, Size dimensions, Size lower) {
    Size row = blockIdx.x;
    float norm = row_norms[row];
    for (Size col = (Size)blockIdx.y * blockDim.x + threadIdx.x; col < cols; col += (Size)gridDim.y * blockDim.x) {
        if (lower && col >= row) {
            if (col == row) values[row * cols + col] = 0.0f;
            return;
        }
        float sum = norm + col_norms[col];
        float value = fmaxf(sum - 2.0f * values[row * cols + col], 0.0f);
        if (value < CLOSE * sum) {
            double exact = 0.0;
            for (Size at = 0; at < dimensions; at++) {
                double plain = (double)row_plain[row * dimensions + at] - (double)col_plain[col * dimensions + at];
                double mapped = (double)row_mapped[row * dimensions + at] - (double)col_mapped[col * dimensions + at];
                exact += plain * mapped;
            }
            value = (float)fmax(exact, 0.0);
        }
        values[row * cols + col] = value;
    }
}

extern "C" __global__ void kernel_values(float* values, Size count, float inverse, float half_q) {
    Size step = (Size)gridDim.x * blockDim.x;
    for (Size at = (Size)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
        values[at] = kernel_value(values[at], inverse, half_q);
}

// The kernel matrix above the diagonal from the squared distances below it. Tiles of 32×32, eight rows of threads.
extern "C" __global__ void kernel_upper(float* square, Size n, float inverse, float half_q, float diagonal) {
    __shared__ float tile[32][33];
    Size above = (Size)blockIdx.y * 32, beside = (Size)blockIdx.x * 32;
    if (beside < above) return;
    for (int y = threadIdx.y; y < 32; y += 8) {
        Size row = beside + y, col = above + threadIdx.x;
        if (row < n && col < row) tile[y][threadIdx.x] = square[row * n + col];
    }
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8) {
        Size row = above + y, col = beside + threadIdx.x;
        if (col >= n || col < row) continue;
        square[row * n + col] = col == row ? diagonal : kernel_value(tile[threadIdx.x][y], inverse, half_q);
    }
}

// The gradient weights less `shift`, in both triangles, from the squared distances below the diagonal. 0 for a pair at distance 0.
extern "C" __global__ void weights_both(float* square, Size n, float inverse, float half_q, float minus_q, float shift) {
    __shared__ float tile[32][33];
    Size below = (Size)blockIdx.y * 32, left = (Size)blockIdx.x * 32;
    if (left > below) return;
    for (int y = threadIdx.y; y < 32; y += 8) {
        Size row = below + y, col = left + threadIdx.x;
        if (row >= n || col > row) continue;
        float weight = col == row ? 0.0f : kernel_weight(square[row * n + col], inverse, half_q, minus_q);
        weight = weight == 0.0f ? 0.0f : weight - shift;
        tile[y][threadIdx.x] = weight;
        square[row * n + col] = weight;
    }
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8) {
        Size row = left + y, col = below + threadIdx.x;
        if (col < n && col > row) square[row * n + col] = tile[threadIdx.x][y];
    }
}

// Rows first, first + step, … of the kernel matrix in f64, with `diagonal` on the diagonal.
extern "C" __global__ void kernel_rows(
    const float* square, Size n, Size first, Size step, Size count, float inverse, float half_q, float diagonal,
    double* out) {
    __shared__ float tile[32][33];
    Size above = (Size)blockIdx.y * 32, left = (Size)blockIdx.x * 32;
    for (int y = threadIdx.y; y < 32; y += 8) {
        Size row = first + step * (above + y), col = left + threadIdx.x;
        if (above + y < count && col < row) tile[y][threadIdx.x] = square[row * n + col];
    }
    for (int y = threadIdx.y; y < 32; y += 8) { // entries above the diagonal, read from below it
        Size row = first + step * (above + threadIdx.x), col = left + y;
        if (above + threadIdx.x < count && col < n && col > row) tile[threadIdx.x][y] = square[col * n + row];
    }
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8) {
        Size row = first + step * (above + y), col = left + threadIdx.x;
        if (above + y >= count || col >= n) continue;
        float value = col == row ? diagonal : kernel_value(tile[y][threadIdx.x], inverse, half_q);
        out[(above + y) * n + col] = (double)value;
    }
}

// Writes 1 at every label; the other numbers are 0 already.
extern "C" __global__ void one_hot(float* out, const unsigned* labels, Size rows, Size classes) {
    Size row = (Size)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) out[row * classes + labels[row]] = 1.0f;
}

extern "C" __global__ void add_one_hot(
    double* out, const unsigned* labels, Size first, Size step, Size rows, Size classes) {
    Size row = (Size)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) out[row * classes + labels[first + step * row]] += 1.0;
}

extern "C" __global__ void add(float* to, const float* from, Size count) {
    Size step = (Size)gridDim.x * blockDim.x;
    for (Size at = (Size)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) to[at] += from[at];
}

extern "C" __global__ void widen(const float* from, double* to, Size count) {
    Size step = (Size)gridDim.x * blockDim.x;
    for (Size at = (Size)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) to[at] = (double)from[at];
}

extern "C" __global__ void narrow(const double* from, float* to, Size count) {
    Size step = (Size)gridDim.x * blockDim.x;
    for (Size at = (Size)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) to[at] = (float)from[at];
}

// Per row: 1 if the first of the largest outputs is at the label, else 0; and ‖f - y‖² of outputs f and one-hot label y. One warp per row.
extern "C" __global__ void score_outputs(
    const float* outputs, const unsigned* labels, Size rows, Size classes, double* hits, double* losses) {
    Size row = (Size)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const float* values = outputs + row * classes;
    int lane = threadIdx.x % 32;
    Size best = lane < classes ? lane : 0;
    double sum = 0.0;
    for (Size at = lane; at < classes; at += 32) {
        if (values[at] > values[best]) best = at;
        sum += (double)values[at] * (double)values[at];
    }
    sum = warp_sum(sum);
    for (int offset = 16; offset > 0; offset /= 2) {
        Size other = __shfl_down_sync(EVERYONE, best, offset);
        if (values[other] > values[best] || (values[other] == values[best] && other < best)) best = other;
    }
    if (lane == 0) {
        hits[row] = best == labels[row] ? 1.0 : 0.0;
        losses[row] = sum - 2.0 * (double)values[labels[row]] + 1.0;
    }
}

// ---- The average gradient outer product (algebra: device/cpu/agop/mod.rs). ----

// Copies `count` columns of the n×n matrix, those of sample[first…], to `out` (n×count). One row per block.
template <typename T>
__device__ void gather(const float* square, Size n, const unsigned* sample, Size first, Size count, T* out) {
    Size row = blockIdx.x;
    for (Size at = threadIdx.x; at < count; at += blockDim.x) out[row * count + at] = (T)square[row * n + sample[first + at]];
}
extern "C" __global__ void gather_f32(const float* square, Size n, const unsigned* sample, Size first, Size count, float* out) {
    gather(square, n, sample, first, count, out);
}
extern "C" __global__ void gather_f64(const float* square, Size n, const unsigned* sample, Size first, Size count, double* out) {
    gather(square, n, sample, first, count, out);
}

// q[sample[first + p]] = parts[p] + shift·sums. One row of parts per block.
template <typename T>
__device__ void scatter(const T* parts, const double* sums, float shift, const unsigned* sample, Size first, Size classes, T* q) {
    Size row = sample[first + blockIdx.x];
    for (Size at = threadIdx.x; at < classes; at += blockDim.x)
        q[row * classes + at] = (T)((double)parts[blockIdx.x * classes + at] + (double)shift * sums[at]);
}
extern "C" __global__ void scatter_f32(
    const float* parts, const double* sums, float shift, const unsigned* sample, Size first, Size classes, float* q) {
    scatter(parts, sums, shift, sample, first, classes, q);
}
extern "C" __global__ void scatter_f64(
    const double* parts, const double* sums, float shift, const unsigned* sample, Size first, Size classes, double* q) {
    scatter(parts, sums, shift, sample, first, classes, q);
}

// Adds the sum of every row, or of its squares, to `out`. One warp per row.
template <typename T, bool squares>
__device__ void sum_rows(const T* values, Size rows, Size cols, double* out) {
    Size row = (Size)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    double sum = 0.0;
    for (Size at = threadIdx.x % 32; at < cols; at += 32) {
        double value = (double)values[row * cols + at];
        sum += squares ? value * value : value;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) out[row] += sum;
}
extern "C" __global__ void row_sums_f32(const float* values, Size rows, Size cols, double* out) {
    sum_rows<float, false>(values, rows, cols, out);
}
extern "C" __global__ void row_sums_f64(const double* values, Size rows, Size cols, double* out) {
    sum_rows<double, false>(values, rows, cols, out);
}
extern "C" __global__ void row_squares_f32(const float* values, Size rows, Size cols, double* out) {
    sum_rows<float, true>(values, rows, cols, out);
}
extern "C" __global__ void row_squares_f64(const double* values, Size rows, Size cols, double* out) {
    sum_rows<double, true>(values, rows, cols, out);
}

// A row of H: (w_s w_sᵀ)∘(AAᵀ) - w∘(AQᵀ + QAᵀ), with ‖Q‖² added to the diagonal and the sum halved, and 0 above it; and the sum of
// squares of its terms. One row per block of 256.
template <typename T>
__device__ void fold(
    T* tile, const T* gram, const T* crossed, const float* square, Size n, Size first, Size width, const double* diagonal,
    const double* norms, double* spreads) {
    __shared__ double parts[8];
    Size row = first + blockIdx.x;
    Size offset = (Size)blockIdx.x * width;
    double spread = 0.0;
    for (Size col = threadIdx.x; col < width; col += blockDim.x) {
        T value = 0;
        if (col <= row) {
            value = tile[offset + col] * gram[offset + col] - (T)square[row * n + col] * crossed[offset + col];
            if (col == row) value = (T)(0.5 * ((double)value + diagonal[row]));
            spread += (double)value * (double)value * norms[col];
        }
        tile[offset + col] = value;
    }
    spread = warp_sum(spread);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = spread;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int warp = 1; warp < 8; warp++) spread += parts[warp];
    spreads[row] = spread * norms[row];
}
extern "C" __global__ void fold_f32(
    float* tile, const float* gram, const float* crossed, const float* square, Size n, Size first, Size width,
    const double* diagonal, const double* norms, double* spreads) {
    fold(tile, gram, crossed, square, n, first, width, diagonal, norms, spreads);
}
extern "C" __global__ void fold_f64(
    double* tile, const double* gram, const double* crossed, const float* square, Size n, Size first, Size width,
    const double* diagonal, const double* norms, double* spreads) {
    fold(tile, gram, crossed, square, n, first, width, diagonal, norms, spreads);
}

// t∘A - Q in f64, with the row sums t of the weights. One row per block.
template <typename T>
__device__ void rest(const double* row_sums, const float* beta, const T* q, Size classes, double* out) {
    Size row = blockIdx.x;
    for (Size at = threadIdx.x; at < classes; at += blockDim.x)
        out[row * classes + at] = row_sums[row] * (double)beta[row * classes + at] - (double)q[row * classes + at];
}
extern "C" __global__ void rest_f32(const double* row_sums, const float* beta, const float* q, Size classes, double* out) {
    rest(row_sums, beta, q, classes, out);
}
extern "C" __global__ void rest_f64(const double* row_sums, const float* beta, const double* q, Size classes, double* out) {
    rest(row_sums, beta, q, classes, out);
}

// w_jp (x_p - x_j) for the points p = sample[first…], n × (count·d). One row per block.
extern "C" __global__ void differences(
    const float* square, const float* mapped, Size n, Size dimensions, const unsigned* sample, Size first, Size count,
    float* out) {
    Size row = blockIdx.x, width = count * dimensions;
    for (Size at = threadIdx.x; at < width; at += blockDim.x) {
        Size point = sample[first + at / dimensions], dimension = at % dimensions;
        float here = mapped[point * dimensions + dimension], there = mapped[row * dimensions + dimension];
        out[row * width + at] = square[row * n + point] * (here - there);
    }
}

// ---- Searching. The value of a point is level - 2·product: its squared distance without the query's norm, which all points share. ----

// Subtracts the center from every row. One row per block.
extern "C" __global__ void move_rows(float* points, const float* center, Size cols) {
    for (Size at = threadIdx.x; at < cols; at += blockDim.x) points[blockIdx.x * cols + at] -= center[at];
}

__device__ float value_of(float product, float level) { return fmaf(-2.0f, product, level); }

// Maps floats to integers of the same order.
__device__ unsigned ordered(float value) {
    unsigned bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The k-th smallest value of every query plus its slack, found eight bits at a time. One query per block.
extern "C" __global__ void kth_smallest(
    const float* products, const float* levels, Size n, Size k, const float* slacks, float* limits) {
    __shared__ unsigned counts[256];
    __shared__ unsigned found, remaining;
    const float* row = products + (Size)blockIdx.x * n;
    if (threadIdx.x == 0) { found = 0; remaining = (unsigned)k; }
    for (int shift = 24; shift >= 0; shift -= 8) {
        counts[threadIdx.x] = 0;
        __syncthreads();
        unsigned decided = shift == 24 ? 0u : EVERYONE << (shift + 8), prefix = found;
        for (Size at = threadIdx.x; at < n; at += blockDim.x) {
            unsigned key = ordered(value_of(row[at], levels[at]));
            if ((key & decided) == prefix) atomicAdd(&counts[key >> shift & 255u], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned digit = 0, left = remaining;
            while (digit < 255u && counts[digit] < left) left -= counts[digit++];
            found |= digit << shift;
            remaining = left;
        }
        __syncthreads();
    }
    if (threadIdx.x > 0) return;
    unsigned bits = found & 0x80000000u ? found ^ 0x80000000u : ~found;
    limits[blockIdx.x] = __uint_as_float(bits) + slacks[blockIdx.x];
}

// Counts the points within every query's limit. One warp per query.
extern "C" __global__ void count_within(
    const float* products, const float* levels, Size n, Size queries, const float* limits, unsigned* counts) {
    Size query = (Size)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (query >= queries) return;
    unsigned count = 0;
    for (Size at = threadIdx.x % 32; at < n; at += 32)
        count += value_of(products[query * n + at], levels[at]) <= limits[query] ? 1u : 0u;
    for (int offset = 16; offset > 0; offset /= 2) count += __shfl_down_sync(EVERYONE, count, offset);
    if (threadIdx.x % 32 == 0) counts[query] = count;
}

// Lists the points within every query's limit, in ascending order, from the query's entry of `starts` on. One warp per query.
extern "C" __global__ void list_within(
    const float* products, const float* levels, Size n, Size queries, const float* limits, const unsigned* starts,
    unsigned* ids) {
    Size query = (Size)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (query >= queries) return;
    unsigned lane = threadIdx.x % 32, place = starts[query];
    for (Size first = 0; first < n; first += 32) {
        Size at = first + lane;
        bool within = at < n && value_of(products[query * n + at], levels[at]) <= limits[query];
        unsigned all = __ballot_sync(EVERYONE, within);
        if (within) ids[place + __popc(all & ((1u << lane) - 1u))] = (unsigned)at;
        place += __popc(all);
    }
}

// Squared distances of every query to the points listed for it, in the order of neighbors/distance.rs: 32 sums, added by halves,
// then the remainder. Nothing is fused. One block per query, one warp per pair.
extern "C" __global__ void listed_distances(
    const float* queries, const float* points, Size d, const unsigned* ids, const unsigned* ends, double* out) {
    const float* query = queries + (Size)blockIdx.x * d;
    unsigned lane = threadIdx.x % 32, begin = blockIdx.x == 0 ? 0u : ends[blockIdx.x - 1];
    for (unsigned pair = begin + threadIdx.x / 32; pair < ends[blockIdx.x]; pair += blockDim.x / 32) {
        const float* point = points + (Size)ids[pair] * d;
        double sum = 0.0, rest = 0.0;
        Size whole = d / 32 * 32;
        for (Size at = lane; at < whole; at += 32) {
            double difference = (double)query[at] - (double)point[at];
            sum = __dadd_rn(sum, __dmul_rn(difference, difference));
        }
        for (int half = 16; half > 0; half /= 2) sum = __dadd_rn(sum, __shfl_down_sync(EVERYONE, sum, half));
        if (lane > 0) continue;
        for (Size at = whole; at < d; at++) {
            double difference = (double)query[at] - (double)point[at];
            rest = __dadd_rn(rest, __dmul_rn(difference, difference));
        }
        out[pair] = __dadd_rn(sum, rest);
    }
}

// ---- The product of the classifier: every number is a sum in the order of the depth, one fused multiply-add after the other,
// as in numeric/packed.rs. Tiles of 128×128 numbers, 256 threads, 8×8 each; the next piece of the depth is
// fetched while this one is used. ----

const int SIDE = 128, DEPTH = 8;

template <bool rows_of_right>
__device__ void ordered_product(const float* left, const float* right, Size rows, Size cols, Size depth, float* out) {
    __shared__ __align__(16) float a[DEPTH][SIDE + 4], b[DEPTH][SIDE + 4];
    Size top = (Size)blockIdx.y * SIDE, begin = (Size)blockIdx.x * SIDE;
    int thread = threadIdx.x, x = thread % 16, y = thread / 16;
    float sums[8][8] = {};
    float next_a[4], next_b[4];
    auto fetch = [&](Size from) {
        for (int i = 0; i < 4; i++) {
            Size row = top + thread / 2, at = from + thread % 2 * 4 + i;
            next_a[i] = row < rows && at < depth ? left[row * depth + at] : 0.0f;
            if (rows_of_right) {
                Size col = begin + thread / 2;
                next_b[i] = col < cols && at < depth ? right[col * depth + at] : 0.0f;
            } else {
                Size col = begin + thread % 32 * 4 + i, at = from + thread / 32;
                next_b[i] = col < cols && at < depth ? right[at * cols + col] : 0.0f;
            }
        }
    };
    auto add = [&](int at) {
        float4 a0 = *(float4*)&a[at][y * 4], a1 = *(float4*)&a[at][64 + y * 4];
        float4 b0 = *(float4*)&b[at][x * 4], b1 = *(float4*)&b[at][64 + x * 4];
        float ours[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
        float theirs[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) sums[i][j] = fmaf(ours[i], theirs[j], sums[i][j]);
    };
    fetch(0);
    for (Size from = 0; from < depth; from += DEPTH) {
        __syncthreads();
        for (int i = 0; i < 4; i++) {
            a[thread % 2 * 4 + i][thread / 2] = next_a[i];
            if (rows_of_right) b[thread % 2 * 4 + i][thread / 2] = next_b[i];
            else b[thread / 32][thread % 32 * 4 + i] = next_b[i];
        }
        __syncthreads();
        if (from + DEPTH < depth) fetch(from + DEPTH);
        if (depth - from >= DEPTH) {
#pragma unroll
            for (int at = 0; at < DEPTH; at++) add(at);
        } else {
            for (int at = 0; at < depth - from; at++) add(at);
        }
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            Size row = top + i / 4 * 64 + y * 4 + i % 4, col = begin + j / 4 * 64 + x * 4 + j % 4;
            if (row < rows && col < cols) out[row * cols + col] = sums[i][j];
        }
}
extern "C" __global__ __launch_bounds__(256) void ordered_rows(
    const float* left, const float* right, Size rows, Size cols, Size depth, float* out) {
    ordered_product<true>(left, right, rows, cols, depth, out);
}
extern "C" __global__ __launch_bounds__(256) void ordered_columns(
    const float* left, const float* right, Size rows, Size cols, Size depth, float* out) {
    ordered_product<false>(left, right, rows, cols, depth, out);
}
