#include "text.h"

int64_t ds_count(const uint8_t *data, int64_t n, uint8_t mark) {
    int64_t total = 0;
    for (int64_t p = 0; p < n; p++) total += data[p] == mark;
    return total;
}

int ds_seams(const uint8_t *data, int64_t n, uint8_t mark) {
    uint8_t some = 0; /* most numbers have no blanks, which is found out in a third of the time */
    for (int64_t p = 0; p < n; p++) some |= (uint8_t)((data[p] == 32) | (data[p] == 9) | (data[p] == 13));
    if (!some) return 0;
    uint8_t padding = 0, returns = n > 0 && data[0] == 13;
    for (int64_t p = 1; p < n; p++) {
        const uint8_t a = data[p - 1], b = data[p];
        const uint8_t blank_a = (uint8_t)((a == 32) | (a == 9)), blank_b = (uint8_t)((b == 32) | (b == 9));
        const uint8_t end_a = (uint8_t)((a == mark) | (a == 10));
        const uint8_t end_b = (uint8_t)((b == mark) | (b == 10) | (b == 13));
        padding |= (uint8_t)((blank_b & end_a) | (blank_a & end_b));
        returns |= (uint8_t)(b == 13);
    }
    return (padding ? DS_PADDING : 0) | (returns ? DS_RETURNS : 0);
}

int ds_is_padded(const uint8_t *data, int64_t n, uint8_t mark) {
    uint8_t padded = 0;
    for (int64_t p = 1; p < n; p++) {
        const uint8_t a = data[p - 1], b = data[p];
        const uint8_t blank_a = (uint8_t)((a == 32) | (a == 9)), blank_b = (uint8_t)((b == 32) | (b == 9));
        const uint8_t mark_a = (uint8_t)(a == mark), mark_b = (uint8_t)(b == mark);
        padded |= (uint8_t)((blank_b & mark_a & !mark_b) | (blank_a & mark_b & !mark_a));
    }
    return padded;
}
