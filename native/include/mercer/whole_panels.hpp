// Dense rows of whole numbers packed for tiles: [unit][row], and behind the units what a tile needs of each row.
#pragma once

#include "mercer/dense_panels.hpp"
#include "mercer/tiles.hpp"

namespace mercer::MERCER_ISA {

// Whether a tile of whole numbers has all that the program asks for: a distance or an inner product of all features.
inline bool is_whole(const TileRequest& request) {
    const Program& program = request.program;
    if (request.whole_tile == nullptr || program.n_passes != 1) return false;
    const Pass& pass = program.passes[0];
    return pass.pairing == Pairing::product && pass.columns == nullptr && !(pass.with_norms && pass.with_offsets);
}

// Distances are exact until they are scaled: with norms of 0, -1/2 of one stands for it, as an inner product does for
// itself.
struct WholePanels {
    using Unit = int32_t;

    static int64_t units(const RowsView& rows) { return rows.whole.n_units + 1; }

    // Bytes on the right are packed 128 less, which the lift of the left ones makes up for.
    template <int Width>
    static void pack(const TileRequest& request, bool is_left, int64_t first, int count, const double*, int32_t* packed,
                     float* norms, float*, int64_t) {
        const RowsView& rows = is_left ? request.left : request.right;
        const WholeView& whole = rows.whole;
        const int64_t stride = whole.n_units + kWholeNumbers;
        RowsView units = rows;
        units.dense = {whole.units, Scalar::f32, stride, 1};
        units.n_features = whole.n_units;
        pack_dense_rows<int32_t, int32_t, Width>(units, first, count, nullptr, packed);
        if (whole.bytes && !is_left)
            for (int64_t j = 0; j < whole.n_units * Width; ++j) packed[j] ^= static_cast<int32_t>(0x80808080);
        int32_t* own = packed + whole.n_units * Width;
        const bool is_distance = request.program.passes[0].with_norms;
        for (int r = 0; r < Width; ++r) {
            norms[r] = 0, own[r] = 0;
            if (r >= count) continue;
            const int32_t* numbers =
                whole.units + (rows.rows ? rows.rows[first + r] : first + r) * stride + whole.n_units;
            own[r] = (is_distance ? numbers[kSquares] : 0) - (is_left ? 2 * numbers[kLift] : 0);
        }
    }

    static void tile(const TileRequest& request, const Pass&, const int32_t* left, const int32_t* right, float* tile) {
        const WholeView& whole = request.left.whole;
        request.whole_tile(left, right, whole.n_units, whole.bytes, static_cast<float>(-0.5 * whole.step * whole.step),
                           tile);
    }
};

}  // namespace mercer::MERCER_ISA
