from recorder.commands import main

main()
