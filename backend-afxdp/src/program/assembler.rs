//! Just enough of an assembler for eBPF: instructions as numbers, and labels.

/// One of the machine's eleven registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register(pub(super) u8);

/// How much a load takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
}

/// When a jump against a constant is taken; comparisons are unsigned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Equal = 0x10,
    Less = 0xa0,
    NotEqual = 0x50,
}

/// A place to jump to, which may not be known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// Instruction classes and sources.
const CLASS_LOAD: u8 = 0x61;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const FROM_REGISTER: u8 = 0x08;

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    /// Where each label is.
    labels: Vec<Option<usize>>,
    /// Jumps to be finished, and where they go.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Makes a label that is nowhere yet.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label in front of the next instruction.
    pub(super) fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn emit(&mut self, code: u8, to: Register, from: Register, offset: i16, constant: i32) {
        let registers = to.0 | from.0 << 4;
        let [o0, o1] = offset.to_ne_bytes();
        let [c0, c1, c2, c3] = constant.to_ne_bytes();
        self.code.push(u64::from_ne_bytes([
            code, registers, o0, o1, c0, c1, c2, c3,
        ]));
    }

    fn arithmetic(&mut self, operation: u8, to: Register, constant: i32) {
        self.emit(operation | CLASS_ALU64, to, Register(0), 0, constant);
    }

    fn arithmetic_with(&mut self, operation: u8, to: Register, from: Register) {
        self.emit(operation | FROM_REGISTER | CLASS_ALU64, to, from, 0, 0);
    }

    /// Loads from memory, zero-extended.
    pub(super) fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.emit(CLASS_LOAD | size as u8, to, from, offset, 0);
    }

    pub(super) fn set(&mut self, to: Register, constant: i32) {
        self.arithmetic(0xb0, to, constant);
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.arithmetic_with(0xb0, to, from);
    }

    pub(super) fn add(&mut self, to: Register, constant: i32) {
        self.arithmetic(0x00, to, constant);
    }

    pub(super) fn add_register(&mut self, to: Register, from: Register) {
        self.arithmetic_with(0x00, to, from);
    }

    pub(super) fn and(&mut self, to: Register, constant: i32) {
        self.arithmetic(0x50, to, constant);
    }

    pub(super) fn shift_left(&mut self, to: Register, bits: i32) {
        self.arithmetic(0x60, to, bits);
    }

    pub(super) fn shift_right(&mut self, to: Register, bits: i32) {
        self.arithmetic(0x70, to, bits);
    }

    /// Loads a reference to the map behind a descriptor: an instruction of two words.
    pub(super) fn load_map(&mut self, to: Register, fd: i32) {
        const PSEUDO_MAP_FD: Register = Register(1);
        self.emit(0x18, to, PSEUDO_MAP_FD, 0, fd);
        self.code.push(0);
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(CLASS_JUMP, Register(0), Register(0), 0, 0);
    }

    pub(super) fn jump_if(
        &mut self,
        condition: Condition,
        left: Register,
        constant: i32,
        label: Label,
    ) {
        self.jumps.push((self.code.len(), label));
        self.emit(CLASS_JUMP | condition as u8, left, Register(0), 0, constant);
    }

    /// Jumps if `left` is above `right`, both without sign.
    pub(super) fn jump_if_greater(&mut self, left: Register, right: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(CLASS_JUMP | FROM_REGISTER | 0x20, left, right, 0, 0);
    }

    pub(super) fn call(&mut self, helper: i32) {
        self.emit(CLASS_JUMP | 0x80, Register(0), Register(0), 0, helper);
    }

    pub(super) fn exit(&mut self) {
        self.emit(CLASS_JUMP | 0x90, Register(0), Register(0), 0, 0);
    }

    /// Returns the instructions.
    ///
    /// # Panics
    ///
    /// A label was jumped to and never placed.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is placed");
            // A jump counts from the instruction behind it.
            let distance = target as i16 - at as i16 - 1;
            let mut bytes = self.code[at].to_ne_bytes();
            bytes[2..4].copy_from_slice(&distance.to_ne_bytes());
            self.code[at] = u64::from_ne_bytes(bytes);
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_bytes_that_the_kernel_documents() {
        let mut asm = Assembler::new();
        let end = asm.label();
        asm.load(Size::Word, Register(2), Register(1), 4);
        asm.jump_if(Condition::NotEqual, Register(2), 7, end);
        asm.set(Register(0), 2);
        asm.here(end);
        asm.exit();
        let bytes: Vec<[u8; 8]> = asm.finish().iter().map(|one| one.to_ne_bytes()).collect();
        let expected = [
            [0x61, 0x12, 4, 0, 0, 0, 0, 0],
            [0x55, 0x02, 1, 0, 7, 0, 0, 0],
            [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],
        ];
        assert!(
            cfg!(target_endian = "big") || bytes == expected,
            "{bytes:x?}"
        );
    }
}
