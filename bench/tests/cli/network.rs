//! `roce lab`, as root; without privilege what it says.

use crate::process::roce;

#[test]
fn the_lab_is_there_from_up_to_down() {
    let root = roce_bench::lab::cannot_make_hosts().is_none();
    let up = roce("lab up --mtu 1500");
    if !root {
        up.assert_code(3);
        assert!(up.err.contains("it takes root"), "{}", up.err);
        return;
    }
    up.assert_code(0);
    assert!(up.out.contains("192.168.77.2"), "{}", up.out);
    let again = roce("lab up");
    let link = roce("lab exec client ip link show eth0");
    let echo = roce("lab exec server ip addr show eth0");
    let down = roce("lab down");
    again.assert_code(2);
    assert!(again.err.contains("roce lab down"), "{}", again.err);
    assert!(link.out.contains("mtu 1500"), "{}", link.out);
    assert!(echo.out.contains("fd77::2/64"), "{}", echo.out);
    down.assert_code(0);
    roce("lab down").assert_code(0);
    let gone = roce("lab exec client true");
    gone.assert_code(2);
    assert!(gone.err.contains("roce lab up"), "{}", gone.err);
}
