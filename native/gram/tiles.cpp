// Kernel tiles, compiled once per instruction set (see simd.hpp).
#include "gram/tiles.hpp"

#include <algorithm>
#include <type_traits>

#include "gram/integer_panels.hpp"
#include "gram/run_bits.hpp"
#include "gram/run_dense.hpp"
#include "gram/run_sparse.hpp"
#include "gram/tile_sink.hpp"
#include "parallel/parallel.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kNearBytes = 4 << 20;  // bytes of a matrix that stays in the cache
// In a matrix larger than kNearBytes, copying the lower triangle is faster than evaluating it from this many terms per
// row on.
constexpr int64_t kMirroredTerms = 64;
constexpr int64_t kEntryTerms = 3;        // dense terms that cost as much as one entry of a sparse row
constexpr int64_t kMirroredAlone = 512;   // rows of a matrix below which one thread mirrors faster than several
constexpr int64_t kTurnedFeatures = 192;  // features of dense rows from which a small left side is packed as columns

template <class Stored>
constexpr int64_t kMirrored = 2 * kLanesOf<Stored>;  // rows that one task mirrors
constexpr int64_t kMirroredAhead = 32;               // distance of prefetches, in rows

template <class Stored>
struct MirrorJob {
    const Sink<Stored>& sink;
    int64_t size;
};

// Copies the upper triangle to the lower one, for kMirrored rows. Writes are sequential. Reads come from a different
// row each time, which hardware prefetchers do not predict, so that rows are prefetched explicitly.
template <class Stored>
void mirror_task(void* context, int64_t task) {
    constexpr int kLane = kLanesOf<Stored>;
    const auto& job = *static_cast<const MirrorJob<Stored>*>(context);
    const int64_t stride = job.sink.stored_stride, first = task * kMirrored<Stored>;
    const int64_t last = min64(first + kMirrored<Stored>, job.size);
    Stored* out = job.sink.stored;
    for (int64_t column = 0; column < first; column += kLane) {
        for (int64_t ahead = column + kMirroredAhead; ahead < min64(column + kMirroredAhead + kLane, first); ++ahead)
            for (int64_t row = first; row < last; row += kLane) __builtin_prefetch(out + ahead * stride + row);
        for (int64_t row = first; row < last; row += kLane)
            turn_square(out + column * stride + row, stride, kLane, static_cast<int>(min64(kLane, last - row)),
                        out + row * stride + column, stride);
    }
    for (int64_t row = first; row < last; ++row)
        for (int64_t c = first; c < row; ++c) out[row * stride + c] = out[c * stride + row];
}

// Whether copying half of a symmetric matrix is faster than evaluating it. For a matrix larger than the cache, copying
// is limited by memory, while evaluation overlaps its memory accesses with arithmetic.
template <class Real>
bool mirroring_pays(const TileRequest& request) {
    const RowsView& rows = request.left;
    if (rows.count * rows.count * static_cast<int64_t>(sizeof(Real)) <= kNearBytes) return true;
    int64_t terms = rows.count * rows.n_features;
    if (rows.kind == RowsKind::bits) return false;
    if (rows.kind == RowsKind::csr) {
        terms = 0;
        with_csr(rows, request.right.csr.places, [&](const auto& some) {
            for (int64_t i = 0; i < rows.count; ++i) terms += kEntryTerms * some.length(i);
        });
    }
    return terms * request.program.n_passes >= kMirroredTerms * rows.count;
}

// Whether the left rows should be packed as columns; they are fewer than the right ones. Columns cost more to pack, but
// stay in the cache. For short dense rows this is slower, because storing the transposed values dominates.
bool turning_pays(const TileRequest& request) {
    const int64_t p = request.left.n_features;
    if (request.left.kind == RowsKind::bits) return false;
    return request.left.kind == RowsKind::csr || (p >= kTurnedFeatures && request.left.count < p);
}

// Whether all passes are L1 distances. In double precision they need no centre: x - z is rounded once, and subtracting
// a centre would add rounding errors. In single precision the centre is used, because it preserves digits that the
// conversion of x would lose.
bool adds_differences(const Program& program) {
    return std::all_of(program.passes, program.passes + program.n_passes,
                       [](const Pass& pass) { return pass.pairing == Pairing::l1; });
}

template <class Real, class Stored>
void run_numbers(const TileRequest& request, const Sink<Stored>& sink) {
    if constexpr (sizeof(Real) == sizeof(float))
        if (are_integers(request)) return run_dense<IntegerPanels, Real>(request, sink);
    run_dense<NumberPanels<Real>, Real>(request, sink);
}

template <class Real, class Stored>
void run(const TileRequest& request, const Sink<Stored>& sink) {
    if (request.left.count == 0 || request.right.count == 0) return;
    TileRequest asked = request;
    asked.symmetric = request.symmetric && (sink.stored == nullptr || mirroring_pays<Real>(request));
    if (std::is_same_v<Real, double> && adds_differences(request.program)) asked.centre = nullptr;
    Sink<Stored> into = sink;
    if (sink.stored != nullptr && request.left.count < request.right.count && turning_pays(request)) {
        asked.left = request.right, asked.right = request.left;
        into.turned = true;
    }
    if (request.left.kind == RowsKind::bits)
        run_bits(asked, into);
    else if (request.left.kind == RowsKind::csr)
        run_sparse<Real>(asked, into, request.right.csr.places, request.right.csr.n_common);
    else
        run_numbers<Real>(asked, into);
    if (!asked.symmetric || sink.stored == nullptr) return;
    MirrorJob<Stored> job{sink, request.left.count};
    const int n_threads = job.size < kMirroredAlone ? 1 : request.n_threads;
    parallel_for(divide_up(job.size, kMirrored<Stored>), n_threads, mirror_task<Stored>, &job);
}

template <class Real>
void combine(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    const int64_t n_right = request.right.count;
    const bool turn = n_vectors > 1 && n_vectors <= kFewVectors;
    Scratch memory(turn ? sizeof(double) * static_cast<std::size_t>(n_right * n_vectors) : 0);
    double* turned = memory.as<double>();
    for (int64_t j = 0; turn && j < n_right; ++j)
        for (int64_t t = 0; t < n_vectors; ++t) turned[t * n_right + j] = vectors[j * n_vectors + t];
    TileRequest asked = request;
    asked.symmetric = request.symmetric && n_vectors <= kFewVectors;
    run<Real>(asked, Sink<Real>{nullptr, 0, out, turn ? turned : vectors, n_vectors, n_right, false});
}

}  // namespace

void block(const TileRequest& request, double* out, int64_t out_stride) {
    run<double>(request, Sink<double>{out, out_stride, nullptr, nullptr, 0, 0, false});
}

void block_single(const TileRequest& request, float* out, int64_t out_stride) {
    run<float>(request, Sink<float>{out, out_stride, nullptr, nullptr, 0, 0, false});
}

void block_rounded(const TileRequest& request, float* out, int64_t out_stride) {
    run<double>(request, Sink<float>{out, out_stride, nullptr, nullptr, 0, 0, false});
}

void matvec(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    combine<double>(request, vectors, n_vectors, out);
}

void matvec_single(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    combine<float>(request, vectors, n_vectors, out);
}

}  // namespace mercer::MERCER_ISA
