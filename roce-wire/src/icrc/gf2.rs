//! Polynomials over GF(2) modulo the CRC's: how the CRC register runs backwards over zeros.
//!
//! A register is a polynomial with the coefficient of x^0 in its highest bit. Running the CRC over
//! one byte of zeros multiplies the register by x^8; running back divides by it.

/// The polynomial of CRC-32 without its x^32.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The register of the polynomial 1.
const ONE: u32 = 1 << 31;

/// Multiplies by x.
pub(super) const fn times_x(register: u32) -> u32 {
    (register >> 1) ^ (POLYNOMIAL & (register & 1).wrapping_neg())
}

/// Divides by x. The polynomial's x^0 coefficient is 1, so the product's highest bit tells if
/// `times_x` has subtracted the polynomial.
const fn over_x(register: u32) -> u32 {
    let subtracted = register >> 31;
    ((register ^ (POLYNOMIAL & subtracted.wrapping_neg())) << 1) | subtracted
}

/// Multiplies two registers.
pub(super) const fn multiply(a: u32, b: u32) -> u32 {
    let mut product = 0;
    let mut shifted = b;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= shifted & (a >> bit & 1).wrapping_neg();
        shifted = times_x(shifted);
    }
    product
}

/// Returns x^(-8n): what a register is multiplied with to run back over `n` bytes of zeros.
pub(super) const fn over_bytes(n: u16) -> u32 {
    let [high, low] = n.to_be_bytes();
    multiply(HIGH[high as usize], LOW[low as usize])
}

/// x^(-8n) for n up to 255.
static LOW: [u32; 256] = powers(over_x8(ONE));

/// x^(-8 * 256 n) for n up to 255.
static HIGH: [u32; 256] = powers(multiply(LOW[255], LOW[1]));

const fn over_x8(register: u32) -> u32 {
    let mut result = register;
    let mut bit = 0;
    while bit < 8 {
        result = over_x(result);
        bit += 1;
    }
    result
}

const fn powers(base: u32) -> [u32; 256] {
    let mut table = [ONE; 256];
    let mut n = 1;
    while n < table.len() {
        table[n] = multiply(table[n - 1], base);
        n += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_undoes_multiplication() {
        for bit in 0..32 {
            assert_eq!(over_x(times_x(1 << bit)), 1 << bit);
            assert_eq!(times_x(over_x(1 << bit)), 1 << bit);
            assert_eq!(multiply(ONE, 1 << bit), 1 << bit);
        }
    }

    #[test]
    fn running_back_undoes_a_run_over_zeros() {
        for n in [0, 1, 2, 255, 256, 257, 1500, 4140, 65_535_u16] {
            let mut register = 0x1234_5678;
            for _ in 0..u32::from(n) * 8 {
                register = times_x(register);
            }
            assert_eq!(multiply(register, over_bytes(n)), 0x1234_5678);
        }
    }
}
