use core::fmt::Write;

use alloc::string::String;

use super::*;

#[test]
fn the_whole_table_is_as_written_down() {
    let mut table = String::new();
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        for from in QpState::ALL {
            for to in QpState::ALL {
                let Some(rule) = transition(from, to, service) else {
                    continue;
                };
                writeln!(
                    table,
                    "{service:?} {from}->{to}: needs {}; allows {}",
                    rule.required, rule.optional
                )
                .expect("a string takes everything");
            }
        }
    }
    assert_eq!(
        table,
        include_str!("transitions.txt"),
        "the table changed:\n{table}"
    );
}

#[test]
fn required_and_optional_never_overlap() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        for from in QpState::ALL {
            for to in QpState::ALL {
                if let Some(rule) = transition(from, to, service) {
                    let both = rule.required.minus(rule.required.minus(rule.optional));
                    assert!(both.is_empty(), "{service:?} {from}->{to}: {both}");
                }
            }
        }
    }
}
